"use strict";
(() => {
  const root = document.documentElement;
  const say = (text) => { document.getElementById("status").textContent = text; };

  // Dark or light: the system's choice until the button is used, which is then remembered where it can be.
  const system = matchMedia("(prefers-color-scheme: dark)");
  const theme = document.getElementById("theme");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  const showTheme = () => theme.setAttribute("aria-pressed", String(isDark()));
  try {
    const kept = localStorage.getItem("thetarbm-theme");
    if (kept === "dark" || kept === "light") root.dataset.theme = kept;
  } catch { /* a browser may refuse storage to a file */ }
  theme.hidden = false;
  showTheme();
  system.addEventListener("change", showTheme);
  theme.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    showTheme();
    try { localStorage.setItem("thetarbm-theme", root.dataset.theme); } catch { /* as above */ }
  });

  // Sorting: up, down, and as it was. What has no value stays last.
  const keyOf = (row, column, numeric) => {
    const cell = row.cells[column];
    if (numeric) return cell && cell.dataset.value !== undefined ? Number(cell.dataset.value) : null;
    return (cell && cell.textContent.trim()) || null;
  };
  const compare = (a, b) => (typeof a === "number" ? a - b : a.localeCompare(b, "en", { numeric: true }));
  const next = { none: "ascending", ascending: "descending", descending: "none" };
  for (const table of document.querySelectorAll("table.sortable")) {
    const body = table.tBodies[0];
    const order = Array.from(body.rows);
    const buttons = Array.from(table.tHead.querySelectorAll("button.sort"));
    buttons.forEach((button, column) => button.addEventListener("click", () => {
      const heading = button.closest("th");
      const direction = next[heading.getAttribute("aria-sort")];
      for (const each of buttons) each.closest("th").setAttribute("aria-sort", "none");
      heading.setAttribute("aria-sort", direction);
      const rows = order.slice();
      if (direction !== "none") {
        const numeric = order.some((row) => row.cells[column] && row.cells[column].dataset.value !== undefined);
        const keys = new Map(order.map((row) => [row, keyOf(row, column, numeric)]));
        const sign = direction === "ascending" ? 1 : -1;
        rows.sort((first, second) => {
          const a = keys.get(first), b = keys.get(second);
          if (a === null || b === null) return (a === null) - (b === null);
          return sign * compare(a, b);
        });
      }
      body.append(...rows);
      say(direction === "none" ? "In the order of the suite." : `Sorted by ${button.textContent}, ${direction}.`);
    }));
  }

  // Rows that have the chosen options.
  for (const filter of document.querySelectorAll(".filter")) {
    const rows = Array.from(filter.parentElement.querySelectorAll("tbody tr"));
    const chosen = Array.from(filter.querySelectorAll("select"));
    filter.hidden = false;
    filter.addEventListener("change", () => {
      for (const row of rows) {
        const options = row.dataset.options.split(" ");
        row.hidden = !chosen.every((select) => select.value === "" || options.includes(select.value));
      }
      say(`${rows.filter((row) => !row.hidden).length} of ${rows.length} universes.`);
    });
  }

  // The runs behind a number, under the pointer, by focus or by touch; Escape hides them.
  const tip = document.getElementById("tip");
  let owner = null, leaving = 0;
  const hide = () => { clearTimeout(leaving); tip.hidden = true; owner = null; };
  const show = (button) => {
    clearTimeout(leaving);
    if (owner === button) return;
    owner = button;
    const runs = document.getElementById(button.getAttribute("aria-describedby"));
    tip.replaceChildren(...Array.from(runs.childNodes, (node) => node.cloneNode(true)));
    tip.hidden = false;
    place();
  };
  const place = () => {
    const at = owner.getBoundingClientRect(), size = tip.getBoundingClientRect();
    if (at.bottom < 0 || at.top > innerHeight) { hide(); return; }
    const below = at.bottom + 6 + size.height <= innerHeight || at.top < size.height + 6;
    tip.style.top = `${below ? at.bottom + 6 : at.top - size.height - 6}px`;
    tip.style.left = `${Math.max(8, Math.min(at.left, root.clientWidth - size.width - 8))}px`;
  };
  const numberAt = (event) => (event.target instanceof Element ? event.target.closest("button.number") : null);
  const inTip = (event) => event.target instanceof Element && event.target.closest("#tip");
  document.addEventListener("pointerover", (event) => {
    const button = numberAt(event);
    if (button) show(button);
    else if (inTip(event)) clearTimeout(leaving);
    else if (owner && owner !== document.activeElement) { clearTimeout(leaving); leaving = setTimeout(hide, 200); }
  });
  document.addEventListener("focusin", (event) => { const button = numberAt(event); if (button) show(button); else hide(); });
  document.addEventListener("focusout", (event) => { if (numberAt(event) && numberAt(event) === owner) hide(); });
  document.addEventListener("click", (event) => { const button = numberAt(event); if (button) show(button); else if (!inTip(event)) hide(); });
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") hide(); });
  document.addEventListener("scroll", (event) => { if (owner && event.target !== tip) place(); }, { capture: true, passive: true });

  // What can be pushed sideways can be reached by keyboard.
  const reach = () => {
    for (const box of document.querySelectorAll(".picture, .scroll, pre")) {
      const wider = box.scrollWidth > box.clientWidth || box.scrollHeight > box.clientHeight;
      const needs = { tabindex: "0", role: "region", "aria-label": box.dataset.label };
      for (const [name, value] of Object.entries(needs)) {
        if (wider) box.setAttribute(name, value);
        else box.removeAttribute(name);
      }
      box.classList.toggle("wider", box.scrollWidth > box.clientWidth);
    }
  };
  reach();
  addEventListener("resize", reach);
  document.addEventListener("toggle", reach, true);

  // Copying a command or the suite.
  const copy = async (code) => {
    try {
      await navigator.clipboard.writeText(code.textContent);
      return true;
    } catch {
      // Without a clipboard for scripts (a page from plain http), the selection is copied.
      getSelection().selectAllChildren(code);
      const done = document.execCommand("copy");
      if (done) getSelection().removeAllRanges();
      return done;
    }
  };
  for (const button of document.querySelectorAll("button.copy")) {
    const label = button.textContent;
    button.hidden = false;
    let back = 0;
    button.addEventListener("click", async () => {
      const done = await copy(button.parentElement.querySelector("code"));
      button.textContent = done ? "Copied" : "Selected";
      say(done ? "Copied." : "Selected: press Ctrl+C to copy.");
      clearTimeout(back);
      back = setTimeout(() => { button.textContent = label; }, 2000);
    });
  }

  // Paper has no summary to open: everything is printed, and closed again afterwards.
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = Array.from(document.querySelectorAll("details:not([open])"));
    for (const each of opened) each.open = true;
  });
  addEventListener("afterprint", () => { for (const each of opened) each.open = false; opened = []; });
})();
