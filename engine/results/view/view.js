// Rows and groups come from the server that printed the address of this page; a bundle, which has no token, holds them.
const byId = name => document.getElementById(name)
const {columns, keys, rows: held, token, total} = JSON.parse(byId("about").textContent)
const told = message => byId("error").textContent = message
const decimals = value => Math.abs(value) < 0.001 ? value.toPrecision(3) : value.toFixed(3)
const shown = value => typeof value === "number" && !Number.isInteger(value) ? decimals(value) : String(value ?? "")
// Only all are 100.0, and only none are 0.0.
const percent = share => [1, 2, 3, 4, 5, 6].map(digits => (100 * share).toFixed(digits))
  .find(text => (Number(text) < 100) === (share < 1) && (Number(text) > 0) === (share > 0)) ?? String(100 * share)

function element(tag, content = "", own = {}) {
  const made = Object.assign(document.createElement(tag), own)
  made.append(...[content].flat())
  return made
}

const address = (path, asked, more = {}) => `${path}?${new URLSearchParams({token, query: JSON.stringify(asked), ...more})}`

async function ask(...asked) {
  const reply = await fetch(address(...asked)).catch(() => null)
  const answer = await reply?.json() ?? {error: "The program does not answer: start it again."}
  told(answer.error ?? "")
  return answer.error ? Promise.reject(answer.error) : answer
}

// The filters in the address of the page; none where it is cut, as by a mail program.
function kept() {
  try {
    return location.hash !== "" && JSON.parse(decodeURIComponent(location.hash.slice(1)))
  } catch {
    return false
  }
}

const module = token ? `/dt_bundle.js?token=${token}`
  : URL.createObjectURL(new Blob([byId("library").textContent], {type: "text/javascript"}))
const {default: DataTable, set_or_remove_dark_class: followColours} = await import(module)
followColours()
DataTable.util.diacritics(text => text)  // é is not e
const order = way => (a, b) => a === b ? 0 : a === null ? 1 : b === null ? -1 : a < b ? -way : way  // no value: last
DataTable.type("cell", {order: {asc: order(1), desc: order(-1)}})
const {Criteria} = DataTable
// A value is written; a list of all values is too long for sentences.
const input = {init: Criteria.initInput, inputValue: Criteria.inputValueInput, isInputValid: Criteria.isInputValidInput}
const typed = ({"=": is, "!=": not, ...others}) => ({"=": {...is, ...input}, "!=": {...not, ...input}, ...others})
const number = typed(Criteria.numConditions)
number.null = {...number.null, search: Number.isNaN}
number["!null"] = {...number["!null"], search: value => !Number.isNaN(value)}

// What DataTables asks, in the form that the server reads: a search is a condition of some columns.
function question({draw, start, length, order, search, searchBuilder = {}}) {
  const searched = columns.filter(own => own.searchable).map(own => ({origData: own.data, condition: "contains", value: [search.value]}))
  const filters = {logic: "AND", criteria: [searchBuilder, {logic: "OR", criteria: searched}]}
  return {draw, start, length, filters, order: order.map(own => [own.column, own.dir])}
}

const saved = (text, end) => ({text, action: () => location.assign(address(`/rows${end}`, question(table.ajax.params())))})
// Values as they are, and texts letter by letter.
const written = extend => ({extend, title: null, filename: "rows", bom: true, exportOptions: {
  orthogonal: "export", stripHtml: false, stripNewlines: false, decodeEntities: false, format: {header: (_, at) => columns[at].name}}})
const buttons = token ? [saved("CSV", ".csv"), saved("Excel", ".xlsx")] : [written("csv"), written("excel")]
const info = `_TOTAL_ of _MAX_ rows${held?.length < total ? ` (a sample of ${total.toLocaleString("en")})` : ""}`

const table = new DataTable("#rows", {
  ...held ? {data: held} : {serverSide: true, ajax: (asked, show) => ask("/rows.json", question(asked)).then(show, told)},
  columns: columns.map(own => ({
    ...own, title: element("span", own.name).innerHTML, type: "cell",
    searchBuilder: {orthogonal: {display: "display", search: "condition"}},
    render: (value, way) => way === "display" ? element("span", shown(value)).innerHTML
      : way === "condition" ? value ?? (own.searchBuilderType === "number" ? NaN : "") : way === "export" ? value ?? "" : value,
    createdCell: cell => cell.dir = "auto",  // letters from right to left
  })),
  layout: {
    top2: {searchBuilder: {greyscale: true, conditions: {text: typed(Criteria.stringConditions), number}, preDefined: kept()}},
    topStart: "info", topEnd: "search", bottomStart: ["pageLength", {buttons}], bottomEnd: "paging",
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

const criterion = (at, value) => ({data: columns[at].name, origData: String(at), type: columns[at].searchBuilderType,
  ...(value ?? "") === "" ? {condition: "null", value: []} : {condition: "=", value: [String(value)]}})

function filter(at, value) {
  const {criteria = [], logic} = table.searchBuilder.getDetails()
  const before = logic === "OR" ? [{criteria, logic}] : criteria
  table.searchBuilder.rebuild({criteria: [...before, criterion(at, value)], logic: "AND"})
}

function groups(at) {
  const failed = columns.findIndex(own => own.name === "failed")
  const found = [...Map.groupBy(table.rows({search: "applied"}).data().toArray(), row => row[at])].map(([value, rows]) =>
    [value, rows.length, rows.filter(row => row[failed] ?? null).length, rows.filter(row => row[failed] === "yes").length])
  return {groups: found.sort((a, b) => b[1] - a[1]).slice(0, 200), of: found.length}
}

async function count() {
  const at = byId("counted").querySelector("select").selectedIndex
  const {groups: found, of} = held ? groups(at) : await ask("/groups.json", question(table.ajax.params()), {column: at})
  const bar = (share, text) => element("td", [element("meter", "", {value: share}), text])
  const lines = found.map(([value, n, judged, wrong]) => element("tr", [
    element("td", element("button", value === null ? "(none)" : String(value), {onclick: () => filter(at, value)})),
    bar(n / found[0][1], n.toLocaleString("en")),
    judged ? bar(wrong / judged, percent(wrong / judged)) : element("td"),
  ]))
  const head = element("tr", [columns[at].name, "rows", "wrong, %"].map(text => element("th", text)))
  const more = of > found.length ? [element("caption", `the ${found.length} most frequent of ${of.toLocaleString("en")}`)] : []
  byId("counted").querySelector("table").replaceChildren(...more, head, ...lines)
}

async function item(row) {
  const filters = {criteria: keys.map(at => criterion(at, row[at])), logic: "AND"}
  const rows = held ? held.filter(own => keys.every(at => own[at] === row[at])).slice(0, 100)
    : (await ask("/rows.json", {filters, length: 100})).data
  const differ = [...columns.keys()].filter(at => columns[at].searchBuilderType === "text" || new Set(rows.map(own => own[at])).size > 1)
  const line = (tag, own) => element("tr", differ.map(at => element(tag, shown(own[at]), {className: columns[at].className, dir: "auto"})))
  byId("item").querySelector("table").replaceChildren(line("th", columns.map(own => own.name)), ...rows.map(own => line("td", own)))
  byId("item").hidden = false
  byId("item").scrollIntoView({block: "nearest"})
}

table.on("click keydown", "tbody tr", ({type, key, currentTarget}) => {
  const row = table.row(currentTarget).data()
  if (row && (type === "click" || key === "Enter")) item(row)
})
byId("counted").querySelector("select").onchange = byId("counted").ontoggle = () => byId("counted").open && count()
