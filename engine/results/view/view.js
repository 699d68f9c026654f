// Rows, groups and items come from `source`: the server that printed the address of this page, or the page itself.
const byId = name => document.getElementById(name)
const about = JSON.parse(byId("about").textContent)
const kinds = Object.fromEntries(about.columns.map(own => [own.name, own.kind]))
const names = about.columns.map(own => own.name)
const filters = []  // [column, sign, value]; one of the values of a column with `=`, and all of the others
const query = {where: filters, search: "", sort: null}  // sort: [column, whether the largest comes first]
const LONG = ["sentence", "premise", "hypothesis", "text", "context", "splits"]
const shape = name => LONG.includes(name) ? "text long" : kinds[name]
const shown = value => value === null || value === undefined ? "" : value === true ? "yes" : value === false ? "no" : value
const decimals = value => Math.abs(value) < 0.001 ? value.toPrecision(3) : value.toFixed(3)
const rounded = value => typeof value === "number" && !Number.isInteger(value) ? decimals(value) : shown(value)
// Only all are 100.0, and only none are 0.0.
const percent = share => [1, 2, 3, 4, 5, 6].map(digits => (100 * share).toFixed(digits))
  .find(text => (Number(text) < 100) === (share < 1) && (Number(text) > 0) === (share > 0)) ?? (100 * share).toString()
document.documentElement.classList.toggle("dark", matchMedia("(prefers-color-scheme: dark)").matches)

function element(tag, text = "", own = {}) {
  const made = Object.assign(document.createElement(tag), own)
  made.textContent = text
  return made
}

function told(error) {
  byId("state").replaceChildren(element("span", error.message, {className: "error"}))
}

const served = {
  async ask(path, asked) {
    const headers = {"X-Token": about.token, "Content-Type": "application/json"}
    const reply = await fetch(path, {method: "POST", headers, body: JSON.stringify({query, ...asked})})
    const answer = await reply.json()
    if (!reply.ok) throw new Error(answer.error)
    return answer
  },
  rows: (start, count) => served.ask("/rows", {start, count}),
  groups: column => served.ask("/groups", {column}),
  alike: row => served.ask("/alike", {row}),
}

const compared = {
  "!=": (own, value) => own != value, ">=": (own, value) => own >= value, "<=": (own, value) => own <= value,
  ">": (own, value) => own > value, "<": (own, value) => own < value,
  "~": (own, value) => String(own ?? "").toLowerCase().includes(value.toLowerCase()),
}
const read = (column, value) => kinds[column] === "number" ? Number(value) : kinds[column] === "truth" ? value === "true" : value
const has = (own, value) => Array.isArray(own) ? own.includes(value) : own === value  // several words in one cell
const held = {
  wanted() {
    const equal = Map.groupBy(filters.filter(own => own[1] === "="), own => own[0])
    const text = query.search.toLowerCase()
    const texts = names.filter(name => ["sentence", "premise", "hypothesis", "expected", "answer"].includes(name))
    const rows = about.rows.filter(row =>
      [...equal].every(([column, own]) => own.some(one => has(row[column], read(column, one[2])))) &&
      filters.every(([column, sign, value]) => sign === "=" || sign === "!=" && !has(row[column], read(column, value)) ||
        sign !== "!=" && row[column] !== null && compared[sign](row[column], read(column, value))) &&
      (!text || texts.some(name => compared["~"](row[name], text))))
    if (!query.sort) return rows
    const [name, descending] = query.sort, way = descending ? -1 : 1
    const order = (a, b) => a === b ? 0 : a === null ? 1 : b === null ? -1 : a < b ? -way : way
    return rows.toSorted((a, b) => order(a[name], b[name]))
  },
  async rows(start, count) {
    const rows = held.wanted()
    return {rows: rows.slice(start, start + count), wanted: rows.length, total: about.rows.length}
  },
  async groups(column) {
    const found = [...Map.groupBy(held.wanted(), row => row[column])].map(([value, rows]) => {
      const judged = rows.filter(row => typeof row.failed === "boolean")
      return {value, n: rows.length, judged: judged.length, failed: judged.filter(row => row.failed).length}
    })
    return {groups: found.sort((a, b) => b.n - a.n).slice(0, 200), of: found.length}
  },
  async alike(number) {
    const row = held.wanted()[number]
    const same = about.rows.filter(own => about.keys.every(key => own[key] === row[key]))
    return {by: about.keys, rows: same.slice(0, 100)}
  },
}
const source = about.token ? served : held

const library = about.token ? `/tables.js?token=${about.token}`
  : URL.createObjectURL(new Blob([byId("library").textContent], {type: "text/javascript"}))
const {default: DataTable} = await import(library)
let latest = 0  // number of the newest question for rows
const table = new DataTable("#rows", {
  serverSide: true,
  pageLength: 25,
  lengthMenu: [10, 25, 50, 100],
  order: [],
  searchDelay: 300,
  columns: about.columns.map(({name, kind}) => ({
    title: element("span", name).innerHTML, name, className: shape(name), data: row => row[name],
    createdCell: cell => { if (kind === "text") cell.dir = "auto" },  // letters from right to left
    render: (value, way) => way === "display" ? element("span", rounded(value)).innerHTML : value,
  })),
  language: {lengthMenu: "_MENU_ rows per page", info: "rows _START_ to _END_ of _TOTAL_", infoEmpty: "", infoFiltered: "",
    search: "search sentences and answers", emptyTable: "no rows", zeroRecords: "no row has all that is asked for"},
  async ajax(asked, done) {
    latest = asked.draw
    query.search = asked.search.value
    query.sort = asked.order.length ? [names[asked.order[0].column], asked.order[0].dir === "desc"] : null
    try {
      const found = await source.rows(asked.start, asked.length)
      if (asked.draw < latest) return  // its answer came after another was asked for
      const sample = found.total < about.total ? ` (a sample of ${about.total.toLocaleString("en")})` : ""
      byId("state").textContent =
        `${found.wanted.toLocaleString("en")} of ${found.total.toLocaleString("en")} rows${sample}`
      done({draw: asked.draw, data: found.rows, recordsTotal: found.total, recordsFiltered: found.wanted})
      byId("rows").querySelectorAll("tbody tr").forEach(row => row.tabIndex = 0)
      links()
    } catch (error) {
      told(error)
      done({draw: asked.draw, data: [], recordsTotal: 0, recordsFiltered: 0})
    }
  },
})

function links() {
  if (!about.token) return
  const asked = new URLSearchParams({token: about.token, query: JSON.stringify(query)})
  const made = [".csv", ".xlsx"].map(end => element("a", `these rows as ${end}`, {href: `/rows${end}?${asked}`}))
  byId("files").replaceChildren("Save ", made[0], " or ", made[1])
}

function refresh() {
  byId("filters").replaceChildren(...filters.map((own, number) => {
    const button = element("button", `${own.join(" ")} ✕`, {type: "button", title: "Remove the filter"})
    button.onclick = () => { filters.splice(number, 1); refresh() }
    return button
  }))
  history.replaceState(null, "", `#${filters.map(own => own.map(encodeURIComponent).join(",")).join("&")}`)
  table.page(0).draw("page")
  if (byId("counted").open) count()
}

function filter(column, sign, value) {
  const isNew = filters.every(own => own[0] !== column || own[1] !== sign || own[2] !== value)
  if (isNew) filters.push([column, sign, value])
  refresh()
}

async function count() {
  const column = byId("by").value
  try {
    const {groups, of} = await source.groups(column)
    const most = Math.max(...groups.map(own => own.n))
    const isJudged = groups.some(own => own.judged)
    const head = element("tr")
    head.append(...[column, "rows", ...(isJudged ? ["wrong, %"] : [])].map(text => element("th", text)))
    const rows = groups.map(own => {
      const row = element("tr"), value = element("td"), n = element("td"), failed = element("td")
      const button = element("button", own.value === null ? "(none)" : String(own.value), {disabled: own.value === null})
      button.onclick = () => filter(column, "=", String(own.value))
      value.append(button)
      const bar = share => Object.assign(element("span", "", {className: "bar"}), {style: `width:${8 * share}rem`})
      n.append(bar(own.n / most), own.n.toLocaleString("en"))
      if (isJudged && own.judged) failed.append(bar(own.failed / own.judged), percent(own.failed / own.judged))
      row.append(value, n, ...(isJudged ? [failed] : []))
      return row
    })
    const more = of > groups.length ? [element("caption", `the ${groups.length} most frequent of ${of.toLocaleString("en")}`)] : []
    byId("groups").replaceChildren(...more, head, ...rows)
  } catch (error) { told(error) }
}

async function alike(number) {
  try {
    const {rows} = await source.alike(number)
    const differs = names.filter(name => new Set(rows.map(row => row[name])).size > 1 || kinds[name] === "text")
    const head = element("tr")
    head.append(...differs.map(name => element("th", name, {className: shape(name)})))
    const lines = rows.map(own => {
      const line = element("tr")
      line.append(...differs.map(name => element("td", rounded(own[name]), {className: shape(name), dir: "auto"})))
      return line
    })
    byId("alike").hidden = false
    byId("alike").querySelector("table").replaceChildren(head, ...lines)
    byId("alike").scrollIntoView({block: "nearest"})
  } catch (error) { told(error) }
}

async function values() {
  const column = byId("column").value
  byId("values").replaceChildren()
  if (LONG.includes(column)) return  // nearly each text is another one
  const {groups} = await source.groups(column)
  byId("values").replaceChildren(...groups.slice(0, 100).map(own => element("option", "", {value: String(own.value)})))
}

const open = event => {
  const row = event.target.closest("tbody tr")
  if (row && (event.type === "click" || event.key === "Enter")) alike(table.page.info().start + table.row(row).index())
}
byId("rows").addEventListener("click", open)
byId("rows").addEventListener("keydown", open)
for (const id of ["column", "by"]) byId(id).append(...names.map(name => element("option", name, {value: name})))
byId("by").value = names.find(name => name !== "model" && !LONG.includes(name)) ?? names[0]
byId("by").onchange = count
byId("counted").ontoggle = () => byId("counted").open && count()
byId("value").onfocus = () => values().catch(told)
byId("filter").onsubmit = event => {
  event.preventDefault()
  filter(byId("column").value, byId("sign").value, byId("value").value)
}
for (const own of location.hash.slice(1).split("&").filter(Boolean)) filters.push(own.split(",").map(decodeURIComponent))
if (filters.length) refresh()
