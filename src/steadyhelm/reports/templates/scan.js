"use strict";
// Sort and filter the list of flagged runs, and show only the sections of the runs that are listed.
// Without this script the page is complete: worst first, and every run has its section.

const list = document.querySelector("table.runs");
const controls = document.querySelector("form.filter");

function openSection(place) {
  const section = place.startsWith("#run-") ? document.getElementById(place.slice(1)) : null;
  const folded = section && section.closest("details");
  if (folded) folded.open = true;
}

function compareCells(column, isNumber) {
  return (one, two) => {
    const [a, b] = [one.cells[column].dataset.value, two.cells[column].dataset.value];
    return isNumber ? Number(a) - Number(b) : a.localeCompare(b);
  };
}

function sortBy(button) {
  const head = button.closest("th");
  const isNumber = head.dataset.sort === "number";
  const isAgain = head.hasAttribute("aria-sort");
  // Large numbers come first, names from A to Z; a second press turns the order round.
  const isDescending = isAgain ? head.getAttribute("aria-sort") === "ascending" : isNumber;
  for (const other of head.parentElement.cells) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", isDescending ? "descending" : "ascending");
  const body = list.tBodies[0];
  const rows = [...body.rows].sort(compareCells(head.cellIndex, isNumber));
  body.append(...(isDescending ? rows.reverse() : rows));
}

function applyFilter() {
  const words = controls.elements.words.value.toLowerCase().split(/\s+/).filter(Boolean);
  const { severity, kind } = controls.elements;
  let shown = 0;
  for (const row of list.tBodies[0].rows) {
    const text = row.textContent.toLowerCase() + " " + row.dataset.words.toLowerCase();
    const isShown =
      words.every((word) => text.includes(word)) &&
      (!severity.value || row.dataset.severity === severity.value) &&
      (!kind.value || row.dataset.kinds.split("|").includes(kind.value));
    row.hidden = !isShown;
    const section = document.getElementById("run-" + row.dataset.number);
    if (section) section.closest("details").hidden = !isShown;
    shown += isShown;
  }
  const all = list.tBodies[0].rows.length;
  controls.elements.count.value = shown === all ? `${all} shown` : `${shown} of ${all} shown`;
}

if (list && controls) {
  controls.hidden = false;
  controls.addEventListener("input", applyFilter);
  controls.addEventListener("submit", (event) => event.preventDefault());
  for (const head of list.querySelectorAll("th[data-sort]")) {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    button.addEventListener("click", () => sortBy(button));
    head.append(button);
  }
  applyFilter();
}
addEventListener("hashchange", () => openSection(location.hash));
openSection(location.hash);
