// @ts-check
"use strict";
/** What every page needs: helpers, tabs, and the box that loads the search when it is used. */
(function (/** @type {typeof globalThis} */ root) {
  const tcprobe = root.tcprobe = Object.assign(root.tcprobe || {}, { pages: {} }); // scripts of pages fill it

  /** What a selector finds first; an Error where the page has no such element. @type {Tcprobe["one"]} */
  const one = (selector, from = document) => {
    const found = from.querySelector(selector);
    if (!found) throw new Error(`this page has no ${selector}`);
    return found;
  };
  /** @type {Tcprobe["all"]} */
  const all = (selector, from = document) => Array.from(from.querySelectorAll(selector));
  /** An element with text: nothing is read as markup. @type {Tcprobe["make"]} */
  const make = (name, content = "", of = "") => {
    const element = document.createElement(name);
    element.textContent = content;
    if (of) element.className = of;
    return element;
  };
  /** What an error says. @type {Tcprobe["why"]} */
  const why = (error) => (error instanceof Error ? error.message : String(error));
  const home = one("script[src$='site.js']").getAttribute("src")?.slice(0, -"site.js".length) ?? "";
  /** @type {Tcprobe["ARROWS"]} */
  const ARROWS = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };

  /** Load a script of the site once. @type {Tcprobe["load"]} */
  const load = (name) => new Promise((done, failed) => {
    const there = document.querySelector(`script[src="${home}${name}"]`);
    if (there && there.dataset.loaded !== "no") return done();
    const element = there || make("script");
    element.addEventListener("load", () => { element.dataset.loaded = "yes"; done(); });
    element.addEventListener("error", failed);
    if (there) return;
    element.dataset.loaded = "no";
    element.src = home + name;
    document.head.append(element);
  });

  let search = /** @type {Search | null} */ (null);
  /** The search, with the table of words: loaded when it is wanted. @type {Tcprobe["words"]} */
  const words = () => Promise.all(["maps.js", "words.js", "find.js"].map(load)).then(() => (search ??= tcprobe.search(root.tcprobeWords)));

  /** A box to choose from, with its label. @type {Tcprobe["select"]} */
  function select(words, values, act) {
    const label = make("label", words + " "), box = make("select");
    values.forEach((value) => box.append(make("option", value)));
    box.addEventListener("change", () => act(box.selectedIndex));
    label.append(box);
    return { label, box };
  }

  /** Another address of this page: as a step in the history, or in the place of the present one. @type {Tcprobe["go"]} */
  function go(query, hash, step = false) {
    const to = location.pathname + (String(query) && "?" + query) + hash;
    try {
      history[step ? "pushState" : "replaceState"](null, "", to);
    } catch (error) {
      // an address of a file takes no other query
      if (step) location.assign(to);
      else location.replace(to);
    }
  }

  /** Links to pages that take an arch take the one that was chosen along. @type {Tcprobe["carry"]} */
  function carry(arch) {
    for (const link of all("main a[href]")) {
      const [path, rest = ""] = String(link.getAttribute("href")).split("?");
      if (!/(^|\/)[fm]\/[^/]+\.html(#.*)?$/.test(path) || link.dataset.arch) continue;
      const query = new URLSearchParams(rest.split("#")[0]);
      if (arch) query.set("arch", arch);
      else query.delete("arch");
      link.setAttribute("href", path + (String(query) && "?" + query));
    }
  }

  // The box: the search itself comes when it is used.
  function searchBox() {
    const place = make("div", "", "find");
    place.setAttribute("role", "search");
    place.innerHTML = '<label for="search" class="soft">Search <kbd>/</kbd></label> <input id="search" type="search" autocomplete="off" placeholder="m16n8k16 bf16 d 3,5" aria-controls="results"><span id="count" class="soft" aria-live="polite"></span><ul id="results" aria-label="Found" hidden></ul>';
    one("header").append(place);
    const box = one("input#search");
    box.addEventListener("focus", () => words().then((found) => tcprobe.find(found)), { once: true });
    addEventListener("keydown", (event) => {
      if (event.key !== "/" || (event.target instanceof Element && event.target.matches("input, select, textarea"))) return;
      event.preventDefault();
      box.focus();
    });
  }

  /** Whether a box takes a value: one to choose from has it. @type {Tcprobe["offers"]} */
  const offers = (box, value) => !(box instanceof HTMLSelectElement) || Array.from(box.options).some((option) => option.value === value);

  /** A small picture before each link to a layout, loaded when it comes into view. @type {Tcprobe["thumbnails"]} */
  function thumbnails(place) {
    for (const link of all("a[href]", place)) {
      const of = /^(.*)l\/([0-9a-f]{12})\.html$/.exec(String(link.getAttribute("href")));
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
      const parts = all(":scope > div", group), bar = make("div", "", "bar"), buttons = parts.map((part) => make("button", one("h3", part).textContent));
      bar.setAttribute("role", "tablist");
      const pick = (/** @type {number} */ chosen, focus = false) => parts.forEach((part, number) => {
        const button = buttons[number];
        part.hidden = number !== chosen;
        button.setAttribute("aria-selected", String(number === chosen));
        button.tabIndex = number === chosen ? 0 : -1;
        if (number === chosen && focus) button.focus();
      });
      parts.forEach((part, number) => {
        const button = buttons[number];
        button.setAttribute("role", "tab");
        part.setAttribute("role", "tabpanel");
        part.setAttribute("aria-label", button.textContent);
        button.addEventListener("click", () => pick(number));
      });
      bar.append(...buttons);
      bar.addEventListener("keydown", (event) => {
        const step = (ARROWS[event.key] || [0, 0])[1], now = buttons.findIndex((button) => button === document.activeElement);
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

  /** What the script of this kind of page does with its data. @template {keyof Datas} K @param {K} kind @param {Datas[K]} data */
  const begin = (kind, data) => tcprobe.pages[kind]?.(data);

  Object.assign(tcprobe, { one, all, make, why, offers, home, ARROWS, load, words, select, go, carry, thumbnails });
  // all scripts of a page have run by now
  addEventListener("DOMContentLoaded", () => {
    const source = document.querySelector("#data"), data = source ? JSON.parse(source.textContent) : { kind: "plain" };
    searchBox();
    all(".layouts, .facts").forEach(thumbnails);
    begin(data.kind, data);
    tabs();
    document.documentElement.classList.add("js");
  });
})(globalThis);
