"use strict";
const content = JSON.parse(document.getElementById("content").textContent);
const by = (id) => document.getElementById(id);
let at = 0;
let trace = content.traces[(content.slider ? content.slider.at : 1) - 1];

const make = (name, text, parent) => {
  const element = document.createElement(name);
  if (text !== undefined) element.textContent = text;
  if (parent) parent.append(element);
  return element;
};
const number = (value) => {
  if (typeof value !== "number") return String(value);
  if (Number.isInteger(value)) return Math.abs(value) < 10000 ? String(value) : value.toLocaleString("en");
  return String(Number(value.toPrecision(7)));
};
const isList = Array.isArray;

// A vector is one row of cells, a matrix one for each of its rows; the larger a number, the stronger its tint.
function table(rows, parent) {
  const scroll = make("div", undefined, parent);
  scroll.className = "scroll";
  const finite = rows.flat().filter((v) => typeof v === "number");
  const largest = Math.max(...finite.map(Math.abs), 0);
  const body = make("table", undefined, scroll);
  for (const row of rows) {
    const line = body.insertRow();
    for (const value of row) {
      const cell = line.insertCell();
      cell.textContent = number(value);
      const strength = typeof value === "number" && largest ? Math.abs(value) / largest : 0;
      cell.style.backgroundColor = `rgba(var(--tint), ${(0.35 * strength).toFixed(3)})`;
    }
  }
}
function named(value, parent) {
  const scroll = make("div", undefined, parent);
  scroll.className = "scroll";
  const body = make("table", undefined, scroll);
  const head = body.insertRow();
  for (const title of ["", ...value.columns]) make("th", title, head).scope = "col";
  for (const [title, figures] of Object.entries(value.rows)) {
    const row = body.insertRow();
    make("th", title, row).scope = "row";
    for (const figure of figures) row.insertCell().textContent = number(figure);
  }
}
function show(name, value, parent) {
  const box = make("div", undefined, parent);
  box.className = "value";
  if (value && value.rows) {
    box.classList.add("wide");
    make("span", name, box);
    named(value, box);
    return;
  }
  if (!isList(value)) {
    box.classList.add("inline");
    make("span", name, box);
    make("b", number(value), box);
    return;
  }
  make("span", name, box);
  if (!isList(value[0])) table([value], box);
  else if (!isList(value[0][0])) table(value, box);
  else for (const part of value) table(part, box);
}
function showStep() {
  const step = trace.steps[at];
  const article = by("step");
  article.replaceChildren();
  make("h3", step.name, article);
  make("p", step.why, article);
  make("div", step.formula, article).className = "formula";
  for (const [title, values] of [["in", step.inputs], ["out", step.outputs]]) {
    make("h4", title, article);
    for (const [name, value] of Object.entries(values)) show(name, value, article);
  }
  by("where").textContent = `step ${at + 1} of ${trace.steps.length}`;
  by("previous").disabled = at === 0;
  by("next").disabled = at === trace.steps.length - 1;
  [...by("list").querySelectorAll("button")].forEach((button, n) => {
    if (n === at) button.setAttribute("aria-current", "step");
    else button.removeAttribute("aria-current");
  });
  const current = by("list").children[at];
  const list = by("list").parentElement;
  if (list.scrollHeight > list.clientHeight) list.scrollTop = current.offsetTop - list.offsetTop - list.clientHeight / 2;
}
function showTrace() {
  at = Math.min(at, trace.steps.length - 1);
  by("list").replaceChildren();
  trace.steps.forEach((step, n) => {
    const button = make("button", step.name, make("li", undefined, by("list")));
    button.type = "button";
    button.addEventListener("click", () => go(n));
  });
  by("results").replaceChildren();
  for (const [name, value] of Object.entries(trace.results)) show(name, value, by("results"));
  by("lessons").replaceChildren();
  for (const lesson of trace.lessons) make("li", lesson, by("lessons"));
  showStep();
}
function go(to) {
  if (to < 0 || to >= trace.steps.length) return;
  at = to;
  showStep();
}
function showSlider() {
  const label = by("slide");
  label.hidden = !content.slider;
  if (!content.slider) return;
  const [name, input, output] = label.children;
  name.textContent = content.slider.name;
  input.max = content.slider.most;
  input.value = content.slider.at;
  output.textContent = content.slider.at;
}
const written = (value) => (typeof value === "string" ? value : JSON.stringify(value));
function showFields(values) {
  by("fields").replaceChildren();
  for (const parameter of content.parameters) {
    const label = make("label", undefined, by("fields"));
    make("b", parameter.name, label);
    make("span", `  ${parameter.doc}`, label).className = "quiet";
    const options = parameter.kind === "flag" ? ["false", "true"] : parameter.choices;
    const field = make(options.length ? "select" : written(values[parameter.name]).length > 40 ? "textarea" : "input", undefined, label);
    for (const option of options) make("option", option, field);
    field.name = parameter.name;
    field.value = written(values[parameter.name]);
    field.disabled = !content.served;
  }
}
async function work(values) {
  const reply = await fetch("run", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(values) });
  const found = await reply.json();
  by("problem").textContent = found.error || "";
  if (found.error) return;
  Object.assign(content, found);
  trace = content.traces[(content.slider ? content.slider.at : 1) - 1];
  showSlider();
  showTrace();
  showFields(content.values);
}
function fieldValues() {
  const values = {};
  for (const field of by("fields").querySelectorAll("[name]")) {
    const parameter = content.parameters.find((p) => p.name === field.name);
    if (parameter.kind === "choice") values[field.name] = field.value;
    else {
      // As in the terminal, 1, 2, 3 is a list too.
      const text = field.value.trim();
      const listed = ["vector", "matrix", "tensor", "matrices", "table"].includes(parameter.kind) && !text.startsWith("[");
      try {
        values[field.name] = JSON.parse(listed ? `[${text}]` : text);
      } catch {
        values[field.name] = text;
      }
    }
  }
  return values;
}
by("previous").addEventListener("click", () => go(at - 1));
by("next").addEventListener("click", () => go(at + 1));
document.addEventListener("keydown", (event) => {
  if (event.target.closest("input, select, textarea")) return;
  if (event.key === "ArrowRight") go(at + 1);
  if (event.key === "ArrowLeft") go(at - 1);
});
by("slide").querySelector("input").addEventListener("input", (event) => {
  content.slider.at = Number(event.target.value);
  by("slide").querySelector("output").textContent = content.slider.at;
  trace = content.traces[content.slider.at - 1];
  const field = by("fields").querySelector(`[name="${content.slider.name}"]`);
  if (field) field.value = content.slider.at;
  showTrace();
});
by("given").querySelector("form").addEventListener("submit", (event) => {
  event.preventDefault();
  work(fieldValues());
});
by("published").addEventListener("click", () => work({}));
if (content.served) by("given").open = true;
else {
  for (const button of by("given").querySelectorAll("button")) button.remove();
  by("problem").className = "quiet";
  by("problem").removeAttribute("role");
  by("problem").textContent = `To work it through with other numbers: tilewright walkthrough ${content.name} --serve`;
}
showSlider();
showFields(content.values);
showTrace();
