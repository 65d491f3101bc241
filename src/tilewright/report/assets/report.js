"use strict";
for (const panes of document.querySelectorAll(".panes")) {
  const tabs = [...panes.querySelectorAll("[role=tab]")];
  const show = (tab) => {
    for (const other of tabs) {
      const chosen = other === tab;
      other.setAttribute("aria-selected", chosen);
      other.tabIndex = chosen ? 0 : -1;
      document.getElementById(other.getAttribute("aria-controls")).hidden = !chosen;
    }
    scrollToMarked();
  };
  // Scrolls the pane alone: the page stays where it is.
  const scrollToMarked = () => {
    for (const pane of panes.querySelectorAll(".pane")) {
      const first = pane.querySelector("tr.on");
      if (first && !pane.hidden) pane.scrollTop = Math.max(0, first.offsetTop - pane.clientHeight / 3);
    }
  };
  const mark = (line, from) => {
    for (const row of panes.querySelectorAll("tr.on")) row.classList.remove("on");
    for (const row of panes.querySelectorAll(`tr[data-l="${line}"]`)) row.classList.add("on");
    for (const pane of panes.querySelectorAll(".pane")) {
      const first = pane.querySelector("tr.on");
      if (first && pane !== from && !pane.hidden) pane.scrollTop = Math.max(0, first.offsetTop - pane.clientHeight / 3);
    }
  };
  for (const tab of tabs) {
    tab.addEventListener("click", () => show(tab));
    tab.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      const next = tabs[(tabs.indexOf(tab) + step + tabs.length) % tabs.length];
      next.focus();
      show(next);
    });
  }
  panes.addEventListener("click", (event) => {
    const row = event.target.closest("tr[data-l]");
    if (row) mark(row.dataset.l, row.closest(".pane"));
  });
  panes.addEventListener("keydown", (event) => {
    const row = event.target.closest("tr[data-l]");
    if (!row) return;
    if (event.key === "Enter" || event.key === " ") {
      mark(row.dataset.l, row.closest(".pane"));
      event.preventDefault();
    }
    const step = { ArrowDown: "nextElementSibling", ArrowUp: "previousElementSibling" }[event.key];
    if (step && row[step]) {
      row[step].focus();
      event.preventDefault();
    }
  });
  panes.mark = mark;
}
for (const link of document.querySelectorAll("a[data-line]")) {
  link.addEventListener("click", (event) => {
    const panes = document.getElementById(link.dataset.panes);
    panes.mark(link.dataset.line, null);
    panes.scrollIntoView({ block: "start" });
    event.preventDefault();
  });
}
