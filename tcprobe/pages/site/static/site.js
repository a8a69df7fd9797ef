// @ts-check
"use strict";
/** What every page needs: helpers, tabs, filters, and the box that loads the search when it is used. */
(function (/** @type {typeof globalThis} */ root) {
  const tcprobe = root.tcprobe = Object.assign(root.tcprobe || {}, { search: {} }); // find.js fills it

  /** @returns {any} */
  const one = (/** @type {string} */ selector, /** @type {any} */ from = document) => from.querySelector(selector);
  /** @returns {any[]} */
  const all = (/** @type {string} */ selector, /** @type {any} */ from = document) => Array.from(from.querySelectorAll(selector));
  /** An element with text: nothing is read as markup. @returns {any} */
  const make = (/** @type {string} */ name, /** @type {string} */ content = "", /** @type {string} */ of = "") => {
    const element = document.createElement(name);
    element.textContent = content;
    if (of) element.className = of;
    return element;
  };
  const source = one("#data"), data = source ? JSON.parse(source.textContent) : {};
  const script = /** @type {HTMLScriptElement} */ (document.currentScript);
  const home = String(script.getAttribute("src")).slice(0, -"site.js".length);
  const ARROWS = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };

  /** Load a script of the site once. @returns {Promise<void>} */
  const load = (/** @type {string} */ name) => new Promise((done, failed) => {
    const there = one(`script[src="${home}${name}"]`);
    if (there && there.dataset.loaded !== "no") return done();
    const element = there || make("script");
    element.addEventListener("load", () => { element.dataset.loaded = "yes"; done(); });
    element.addEventListener("error", failed);
    if (there) return;
    element.dataset.loaded = "no";
    element.src = home + name;
    document.head.append(element);
  });

  /** A box to choose from, with its label. @returns {{label: any, box: any}} */
  function select(/** @type {string} */ words, /** @type {string[]} */ values, /** @type {(at: number) => void} */ act) {
    const label = make("label", words + " "), box = make("select");
    values.forEach((value) => box.append(make("option", value)));
    box.addEventListener("change", () => act(box.selectedIndex));
    label.append(box);
    return { label, box };
  }

  /** Another address of this page: as a step in the history, or in the place of the present one. */
  function go(/** @type {URLSearchParams} */ query, /** @type {string} */ hash, step = false) {
    const to = location.pathname + (String(query) && "?" + query) + hash;
    try {
      history[step ? "pushState" : "replaceState"](null, "", to);
    } catch (error) {
      // an address of a file takes no other query
      if (step) location.assign(to);
      else location.replace(to);
    }
  }

  /** Links to pages that take an arch take the one that was chosen along. */
  function carry(/** @type {string} */ arch) {
    for (const link of all("main a[href]")) {
      const [path, rest = ""] = link.getAttribute("href").split("?");
      if (!/(^|\/)[fm]\/[^/]+\.html(#.*)?$/.test(path) || link.dataset.arch) continue;
      const query = new URLSearchParams(rest.split("#")[0]);
      if (arch) query.set("arch", arch);
      else query.delete("arch");
      link.setAttribute("href", path + (String(query) && "?" + query));
    }
  }

  // The box: the search itself comes when it is used.
  function search() {
    const place = make("div", "", "find");
    place.setAttribute("role", "search");
    place.innerHTML = '<label for="search" class="soft">Search <kbd>/</kbd></label> <input id="search" type="search" autocomplete="off" placeholder="m16n8k16 bf16 d 3,5" aria-controls="results"><span id="count" class="soft" aria-live="polite"></span><ul id="results" aria-label="Found" hidden></ul>';
    one("header").append(place);
    const box = one("#search");
    const begin = () => load("words.js").then(() => load("find.js")).then(() => tcprobe.find());
    box.addEventListener("focus", begin, { once: true });
    addEventListener("keydown", (event) => {
      if (event.key !== "/" || /^(INPUT|SELECT|TEXTAREA)$/.test(/** @type {any} */ (event.target).tagName)) return;
      event.preventDefault();
      box.focus();
    });
  }

  function filters() {
    const boxes = all("[data-filter]"), query = new URLSearchParams(location.search);
    const rows = all("tbody tr[data-family]"), count = one("#filtered");
    const apply = () => {
      rows.forEach((row) => {
        row.hidden = !boxes.every((box) => !box.value || (" " + row.dataset[box.dataset.filter] + " ").includes(" " + box.value.replace("sm_", "") + " "));
      });
      if (count) count.textContent = rows.filter((row) => !row.hidden).length + " of " + rows.length + " rows";
    };
    for (const box of boxes) {
      const wanted = query.get(box.dataset.filter);
      if (wanted !== null && all("option", box).some((option) => option.value === wanted)) box.value = wanted;
      box.addEventListener("change", () => {
        if (box.value) query.set(box.dataset.filter, box.value);
        else query.delete(box.dataset.filter);
        apply();
        if (location.protocol !== "file:") go(query, location.hash);
      });
    }
    if (boxes.length) apply();
  }

  /** A box above a table: rows that have all of its words stay. */
  function rows() {
    for (const place of all("[data-rows]")) {
      const table = one(`[data-table="${place.dataset.rows}"]`), label = make("label", "Rows with "), box = make("input");
      box.type = "search";
      box.addEventListener("input", () => {
        const words = box.value.toLowerCase().split(/\s+/);
        for (const row of table.tBodies[0].rows) row.hidden = !words.every((/** @type {string} */ word) => row.textContent.toLowerCase().includes(word));
      });
      label.append(box);
      place.append(label);
    }
  }

  /** Tables that are sorted by a click on a head: as numbers where both are. */
  function sorting() {
    for (const table of all("table.sorts")) {
      all("thead th", table).forEach((head, at) => {
        const button = make("button", head.textContent, "sort");
        head.replaceChildren(button);
        button.addEventListener("click", () => {
          const down = head.getAttribute("aria-sort") === "ascending";
          all("thead th", table).forEach((other) => other.removeAttribute("aria-sort"));
          head.setAttribute("aria-sort", down ? "descending" : "ascending");
          const key = (/** @type {any} */ row) => row.cells[at].textContent.trim();
          const rows = Array.from(table.tBodies[0].rows).sort((a, b) => {
            const [x, y] = [parseFloat(key(a)), parseFloat(key(b))];
            const order = isNaN(x) && isNaN(y) ? key(a).localeCompare(key(b)) : isNaN(x) ? 1 : isNaN(y) ? -1 : x - y;
            return down ? -order : order;
          });
          table.tBodies[0].append(...rows);
        });
      });
    }
  }

  /** A small picture before each link to a layout, loaded when it comes into view. */
  function thumbnails(/** @type {any} */ place) {
    for (const link of all("a[href]", place)) {
      const of = /^(.*)l\/([0-9a-f]{12})\.html$/.exec(link.getAttribute("href"));
      if (!of || !link.textContent.includes(of[2])) continue;
      const image = make("img", "", "thumb");
      image.loading = "lazy";
      image.alt = "";
      image.src = `${of[1]}svg/${of[2]}-thumb.svg`;
      link.prepend(image);
    }
  }

  // Sections shown one at a time: code by language, phases of an access.
  function tabs() {
    all(".tabs").forEach((group) => {
      const parts = all(":scope > div", group), bar = make("div", "", "bar");
      bar.setAttribute("role", "tablist");
      const pick = (/** @type {number} */ chosen, focus = false) => parts.forEach((part, number) => {
        const button = /** @type {HTMLElement} */ (bar.children[number]);
        part.hidden = number !== chosen;
        button.setAttribute("aria-selected", String(number === chosen));
        button.tabIndex = number === chosen ? 0 : -1;
        if (number === chosen && focus) button.focus();
      });
      parts.forEach((part, number) => {
        const button = make("button", one("h3", part).textContent);
        button.setAttribute("role", "tab");
        part.setAttribute("role", "tabpanel");
        part.setAttribute("aria-label", button.textContent);
        button.addEventListener("click", () => pick(number));
        bar.append(button);
      });
      bar.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
        const step = (ARROWS[event.key] || [0, 0])[1], now = Array.from(bar.children).indexOf(document.activeElement);
        if (step) pick((now + step + parts.length) % parts.length, true);
      });
      group.prepend(bar);
      group.classList.add("live");
      pick(0);
    });
    all("pre").forEach((pre) => { pre.tabIndex = 0; }); // keys scroll what is wide
    all(".copy").forEach((part) => {
      const button = make("button", "Copy", "small");
      button.addEventListener("click", () => navigator.clipboard.writeText(one("pre", part).textContent).then(() => { button.textContent = "Copied"; }));
      part.prepend(button);
    });
  }

  Object.assign(tcprobe, { one, all, make, data, home, ARROWS, load, select, go, carry, thumbnails });
  // modules of pages set tcprobe.page; all scripts of a page have run by now
  addEventListener("DOMContentLoaded", () => {
    search();
    filters();
    sorting();
    rows();
    all(".layouts, .facts").forEach(thumbnails);
    if (tcprobe.page) tcprobe.page();
    tabs();
    document.documentElement.classList.add("js");
  });
})(globalThis);
