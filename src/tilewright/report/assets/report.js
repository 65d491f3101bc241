"use strict";
// Unpacks a pane's rows: gzip in base64, a JSON list of titles and of [line, figures..., code].
async function unpack(pane, packed) {
  const bytes = Uint8Array.from(atob(packed.textContent), (letter) => letter.charCodeAt(0));
  const unzipped = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  const [titles, ...rows] = await new Response(unzipped).json();
  const table = document.createElement("table");
  const add = (row, name, text) => {
    const cell = document.createElement(name);
    cell.textContent = text;
    row.append(cell);
    return cell;
  };
  for (const title of titles) add(table.rows[0] || table.insertRow(), "th", title).scope = "col";
  for (const [line, ...cells] of rows) {
    const row = table.insertRow();
    if (line !== null) row.dataset.l = line;
    for (const text of cells) add(row, "td", text);
  }
  pane.replaceChildren(table);
}
for (const panes of document.querySelectorAll(".panes")) {
  const tabs = [...panes.querySelectorAll("[role=tab]")];
  let marked = panes.dataset.hot;
  // A pane is unpacked when it is first seen; until then nothing in it can be marked.
  const fill = async (pane) => {
    const packed = panes.querySelector(`script[data-rows="${pane.id}"]`);
    if (!packed) return;
    packed.remove();
    await unpack(pane, packed);
    reach(pane, pane.querySelector("tr[data-l]"));
    if (marked) mark(marked, null, [pane]);
  };
  const show = (tab) => {
    for (const other of tabs) {
      const chosen = other === tab;
      other.setAttribute("aria-selected", chosen);
      other.tabIndex = chosen ? 0 : -1;
      const pane = document.getElementById(other.getAttribute("aria-controls"));
      pane.hidden = !chosen;
      if (chosen) fill(pane);
    }
    if (marked) mark(marked, null);
  };
  // Scrolls the panes alone, but for the one that was clicked in: the page stays where it is.
  const mark = (line, clicked, within = panes.querySelectorAll(".pane")) => {
    marked = line;
    for (const pane of within) {
      for (const row of pane.querySelectorAll("tr.on")) row.classList.remove("on");
      const rows = pane.querySelectorAll(`tr[data-l="${line}"]`);
      for (const row of rows) row.classList.add("on");
      if (!rows.length) continue;
      reach(pane, rows[0]);
      if (pane !== clicked && !pane.hidden) pane.scrollTop = Math.max(0, rows[0].offsetTop - pane.clientHeight / 3);
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
    let next = step && row[step];
    while (next && !next.dataset.l) next = next[step];
    if (next) {
      reach(row.closest(".pane"), next);
      next.focus();
    }
    if (step) event.preventDefault();
  });
  // One row of each pane can be reached by Tab, and the arrows go on from there.
  const reach = (pane, row) => {
    for (const other of pane.querySelectorAll("tr[tabindex]")) other.removeAttribute("tabindex");
    if (row) row.tabIndex = 0;
  };
  panes.mark = mark;
  for (const pane of panes.querySelectorAll(".pane")) reach(pane, pane.querySelector("tr[data-l]"));
  for (const pane of panes.querySelectorAll("[role=tabpanel]:not([hidden])")) fill(pane);
  if (marked) mark(marked, null);
}
for (const link of document.querySelectorAll("a[data-line]")) {
  link.addEventListener("click", (event) => {
    const panes = document.getElementById(link.dataset.panes);
    panes.mark(link.dataset.line, null);
    panes.scrollIntoView({ block: "start" });
    event.preventDefault();
  });
}
