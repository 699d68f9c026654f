// Filters for long tables. Without this script every row is shown.
"use strict";
for (const listing of document.querySelectorAll(".listing")) {
  const table = listing.querySelector("table");
  const rows = [...table.tBodies].flatMap((body) => [...body.rows]);
  const headings = [...table.tHead.rows[0].cells].map((cell) => cell.textContent);
  const text = rows.map((row) => row.textContent.toLowerCase());
  const form = document.createElement("div");
  form.className = "filters";
  form.setAttribute("role", "search");
  const labelled = (words, element) => {
    const label = document.createElement("label");
    label.append(words, element);
    form.append(label);
    element.addEventListener("input", apply);
    return element;
  };
  const search = labelled("Rows with the text", Object.assign(document.createElement("input"), { type: "search" }));
  const choices = [];
  headings.forEach((heading, column) => {
    const words = [...new Set(rows.map((row) => row.cells[column].textContent))];
    if (words.length < 2 || words.length > 12 || words.length > rows.length / 2) return;
    const select = document.createElement("select");
    select.append(new Option("all", ""), ...words.map((word) => new Option(word || "(empty)", "=" + word)));
    choices.push([column, labelled(heading, select)]);
  });
  const state = Object.assign(document.createElement("p"), { className: "hint" });
  state.setAttribute("role", "status");
  function apply() {
    const wanted = search.value.trim().toLowerCase();
    let shown = 0;
    rows.forEach((row, number) => {
      const fits = text[number].includes(wanted) && choices.every(
        ([column, select]) => !select.value || select.value === "=" + row.cells[column].textContent);
      row.hidden = !fits;
      shown += fits;
    });
    state.textContent = `${shown} of ${rows.length} rows`;
  }
  listing.prepend(form, state);
  apply();
}
// A printed page has all values.
addEventListener("beforeprint", () => {
  for (const details of document.querySelectorAll("details:not([open])")) {
    details.open = true;
    details.dataset.closed = "";
  }
});
addEventListener("afterprint", () => {
  for (const details of document.querySelectorAll("details[data-closed]")) details.open = false;
});
