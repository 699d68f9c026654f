// Filters and order of tables, values at a touch, figures as files. Without this script everything is shown.
"use strict";
const made = (name, properties) => Object.assign(document.createElement(name), properties);

for (const listing of document.querySelectorAll(".listing")) {
  const table = listing.querySelector("table");
  const rows = [...table.tBodies].flatMap((body) => [...body.rows]);
  const headings = [...table.tHead.rows[0].cells].map((cell) => cell.textContent);
  const text = rows.map((row) => row.textContent.toLowerCase());
  const form = made("div", { className: "filters" });
  form.setAttribute("role", "search");
  const labelled = (words, element) => {
    const label = document.createElement("label");
    label.append(words, element);
    form.append(label);
    element.addEventListener("input", apply);
    return element;
  };
  const search = labelled("Rows with the text", made("input", { type: "search" }));
  const choices = [];
  headings.forEach((heading, column) => {
    const words = [...new Set(rows.map((row) => row.cells[column].textContent))];
    if (words.length < 2 || words.length > 12 || words.length > rows.length / 2) return;
    const select = document.createElement("select");
    select.append(new Option("all", ""), ...words.map((word) => new Option(word || "(empty)", "=" + word)));
    choices.push([column, labelled(heading, select)]);
  });
  const state = made("p", { className: "hint" });
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

// A heading sorts its table: up, down, and as it was.
const NEXT = { none: "ascending", ascending: "descending", descending: "none" };
const figure = (text) => parseFloat(text.replace(/[≈+,]/g, "").replace(/−/g, "-"));
for (const table of document.querySelectorAll(".table table")) {
  const rows = [...table.tBodies].flatMap((body) => [...body.rows]);
  const places = rows.map((row) => row.parentNode);
  const heads = [...table.tHead.rows[0].cells];
  if (rows.length < 3) continue;
  heads.forEach((head, column) => {
    const button = made("button", { type: "button", title: "Sort by this column" });
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const order = NEXT[head.ariaSort || "none"];
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      if (order === "none") return rows.forEach((row, number) => places[number].append(row));
      head.ariaSort = order;
      const text = new Map(rows.map((row) => [row, row.cells[column].textContent]));
      const compared = (one, other) => {
        const [a, b] = [text.get(one), text.get(other)];
        if (!a || !b) return !a - !b;
        const [x, y] = [figure(a), figure(b)];
        const way = isNaN(x) || isNaN(y) ? a.localeCompare(b, "en", { numeric: true }) : x - y;
        return order === "ascending" ? way : -way;
      };
      table.tBodies[0].append(...[...rows].sort(compared));
    });
  });
}

// What a mark or a short name stands for, beside the pointer or the finger.
for (const short of document.querySelectorAll("abbr")) {
  short.dataset.said = short.ariaDescription = short.title;
  short.removeAttribute("title");
}
for (const title of document.querySelectorAll(".picture title:not([id])")) {
  title.parentNode.dataset.said = title.textContent;
  title.remove();
}
const tip = document.body.appendChild(made("div", { className: "tip", hidden: true }));
const tell = (event) => {
  const said = event.target.closest?.("[data-said]")?.dataset.said;
  tip.hidden = !said;
  if (!said) return;
  tip.textContent = said;
  tip.style.left = `${Math.max(8, Math.min(event.clientX + 12, innerWidth - tip.offsetWidth - 8))}px`;
  tip.style.top = `${Math.max(8, event.clientY - tip.offsetHeight - 12)}px`;
};
addEventListener("pointerover", tell);
addEventListener("click", tell);
addEventListener("scroll", () => { tip.hidden = true; }, { passive: true });

// The picture with the colours of a light page: a file has no page around it.
const colours = JSON.parse(document.body.dataset.colours);
for (const own of document.querySelectorAll("figure")) {
  const button = made("button", { type: "button", className: "save", textContent: "Save as SVG" });
  button.addEventListener("click", () => {
    const drawn = new XMLSerializer().serializeToString(own.querySelector(".broad svg"));
    const text = drawn.replace(/var\(--(\w+)\)/g, (_, name) => colours[name]).replaceAll("currentColor", colours.ink);
    const href = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }));
    made("a", { href, download: `${own.dataset.name}.svg` }).click();
    setTimeout(() => URL.revokeObjectURL(href), 60000);
  });
  own.append(button);
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
