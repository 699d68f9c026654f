// Rows and groups come from the server that printed the address of this page; a bundle, which has no token, holds them.
const byId = name => document.getElementById(name)
const about = JSON.parse(byId("about").textContent)
const {names, numeric, token} = about
const LONG = ["sentence", "premise", "hypothesis", "text", "context", "splits"]
const shape = at => LONG.includes(names[at]) ? "long" : numeric[at] ? "number" : "text"
const decimals = value => Math.abs(value) < 0.001 ? value.toPrecision(3) : value.toFixed(3)
const shown = value => typeof value === "number" && !Number.isInteger(value) ? decimals(value) : value ?? ""
// Only all are 100.0, and only none are 0.0.
const percent = share => [1, 2, 3, 4, 5, 6].map(digits => (100 * share).toFixed(digits))
  .find(text => (Number(text) < 100) === (share < 1) && (Number(text) > 0) === (share > 0)) ?? String(100 * share)
const told = message => byId("error").textContent = message
const dark = matchMedia("(prefers-color-scheme: dark)")
const colours = () => document.documentElement.classList.toggle("dark", dark.matches)
dark.onchange = colours
colours()

function element(tag, content = "", own = {}) {
  const made = Object.assign(document.createElement(tag), own)
  made.append(...[content].flat())
  return made
}

async function ask(path, asked) {
  const reply = await fetch(`${path}token=${token}`, {method: "POST", body: JSON.stringify(asked)})
  const answer = await reply.json()
  if (!reply.ok) told(answer.error)
  return answer
}

// The filters in the address of the page; none where it is cut, as by a mail program.
function kept() {
  try {
    return location.hash !== "" && JSON.parse(decodeURIComponent(location.hash.slice(1)))
  } catch {
    return false
  }
}

const library = token ? `/tables.js?token=${token}`
  : URL.createObjectURL(new Blob([byId("library").textContent], {type: "text/javascript"}))
const {default: DataTable} = await import(library)
DataTable.ext.errMode = ({jqXHR}) => told(jqXHR?.responseJSON?.error ?? "The program does not answer: start it again.")
DataTable.util.diacritics(text => text)  // é is not e
const order = way => (a, b) => a === b ? 0 : a === null ? 1 : b === null ? -1 : a < b ? -way : way  // no value: last
DataTable.type("cell", {order: {asc: order(1), desc: order(-1)}})
const {Criteria} = DataTable
// A value is written; a list of all values is too long for sentences.
const input = {init: Criteria.initInput, inputValue: Criteria.inputValueInput, isInputValid: Criteria.isInputValidInput}
const typed = ({"=": is, "!=": not, ...others}) => ({"=": {...is, ...input}, "!=": {...not, ...input}, ...others})
const quantity = typed(Criteria.numConditions)
quantity.null = {...quantity.null, search: Number.isNaN}
quantity["!null"] = {...quantity["!null"], search: value => !Number.isNaN(value)}
const saved = (text, end) => ({text, action: () => location.assign(
  `/rows${end}?${new URLSearchParams({token, query: JSON.stringify({...table.ajax.params(), columns: []})})}`)})
// Values as they are, and texts letter by letter.
const held = extend => ({extend, title: null, filename: "rows", bom: true, exportOptions: {
  orthogonal: "export", stripHtml: false, stripNewlines: false, decodeEntities: false, format: {header: (_, at) => names[at]}}})

const sample = about.rows?.length < about.total ? ` (a sample of ${about.total.toLocaleString("en")})` : ""
const info = `_TOTAL_ of _MAX_ rows${sample}`

const table = new DataTable("#rows", {
  ...token ? {serverSide: true, ajax: {url: `/rows.json?token=${token}`, type: "POST", submitAs: "json"}} : {data: about.rows},
  columns: names.map((name, at) => ({
    name, title: element("span", name).innerHTML, className: shape(at), data: String(at), type: "cell",
    searchable: about.searched.includes(name), searchBuilderType: numeric[at] ? "quantity" : "text",
    searchBuilder: {orthogonal: {display: "display", search: "condition"}},
    render: (value, way) => way === "display" ? element("span", String(shown(value))).innerHTML
      : way === "condition" ? value ?? (numeric[at] ? NaN : "") : way === "export" ? value ?? "" : value,
    createdCell: cell => cell.dir = "auto",  // letters from right to left
  })),
  layout: {
    top2: {searchBuilder: {
      greyscale: true,
      conditions: {text: typed(Criteria.stringConditions), quantity},
      preDefined: kept(),
    }},
    topStart: "info", topEnd: "search",
    bottomStart: ["pageLength", {buttons: token ? [saved("CSV", ".csv"), saved("Excel", ".xlsx")] : [held("csv"), held("excel")]}], bottomEnd: "paging",
  },
  order: [], orderMulti: false, pageLength: 25, searchDelay: 300, search: {smart: false},
  createdRow: row => row.tabIndex = 0,
  language: {
    searchBuilder: {title: {0: "Filters", _: "Filters (%d)"}, add: "Add a filter", clearAll: "Remove all"},
    lengthMenu: "_MENU_ rows per page", search: "search sentences and answers", zeroRecords: "no row has all that is asked for",
    info, infoEmpty: info, infoFiltered: "",
  },
})

table.on("draw", () => {
  history.replaceState(null, "", `#${encodeURIComponent(JSON.stringify(table.searchBuilder.getDetails()))}`)
  if (byId("counted").open) count()
})

const criterion = (at, value) => ({data: names[at], origData: String(at), type: numeric[at] ? "quantity" : "text",
  ...(value ?? "") === "" ? {condition: "null", value: []} : {condition: "=", value: [String(value)]}})

function filter(at, value) {
  const {criteria = [], logic} = table.searchBuilder.getDetails()
  const before = logic === "OR" ? [{criteria, logic}] : criteria
  table.searchBuilder.rebuild({criteria: [...before, criterion(at, value)], logic: "AND"})
}

function groups(at) {
  const failed = names.indexOf("failed")
  const found = [...Map.groupBy(table.rows({search: "applied"}).data().toArray(), row => row[at])].map(([value, rows]) =>
    [value, rows.length, rows.filter(row => row[failed] ?? null).length, rows.filter(row => row[failed] === "yes").length])
  return {groups: found.sort((a, b) => b[1] - a[1]).slice(0, 200), of: found.length}
}

async function count() {
  const at = byId("counted").querySelector("select").selectedIndex
  const {groups: found, of} = token ? await ask(`/groups.json?column=${at}&`, table.ajax.params()) : groups(at)
  const bar = (share, text) => element("td", [Object.assign(element("span", "", {className: "bar"}), {style: `width:${8 * share}rem`}), text])
  const lines = found.map(([value, n, judged, wrong]) => {
    const button = element("button", value === null ? "(none)" : String(value), {onclick: () => filter(at, value)})
    const rate = judged ? bar(wrong / judged, percent(wrong / judged)) : element("td")
    return element("tr", [element("td", button), bar(n / found[0][1], n.toLocaleString("en")), rate])
  })
  const head = element("tr", [names[at], "rows", "wrong, %"].map(text => element("th", text)))
  const more = of > found.length ? [element("caption", `the ${found.length} most frequent of ${of.toLocaleString("en")}`)] : []
  byId("counted").querySelector("table").replaceChildren(...more, head, ...lines)
}

async function item(row) {
  const same = about.keys.map(at => criterion(at, row[at]))
  const rows = token ? (await ask("/rows.json?", {searchBuilder: {criteria: same, logic: "AND"}, length: 100})).data
    : about.rows.filter(own => about.keys.every(at => own[at] === row[at])).slice(0, 100)
  const differ = [...names.keys()].filter(at => !numeric[at] || new Set(rows.map(own => own[at])).size > 1)
  const line = (tag, own) => element("tr", differ.map(at => element(tag, String(shown(own[at])), {className: shape(at), dir: "auto"})))
  byId("item").querySelector("table").replaceChildren(line("th", names), ...rows.map(own => line("td", own)))
  byId("item").hidden = false
  byId("item").scrollIntoView({block: "nearest"})
}

for (const kind of ["click", "keydown"]) byId("rows").addEventListener(kind, event => {
  const row = event.target.closest("tbody tr")
  const cells = row && table.row(row).data()
  if (cells && (kind === "click" || event.key === "Enter")) item(cells)
})
byId("counted").querySelector("select").append(...names.map(name => element("option", name)))
byId("counted").querySelector("select").onchange = byId("counted").ontoggle = () => byId("counted").open && count()
