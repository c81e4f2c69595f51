
(() => {
  "use strict";
  const form = document.getElementById("filters");
  const all = query => [...document.querySelectorAll(query)];

  // A link to a rule opens its manual; browsers do that by themselves only when the address changes.
  const reveal = () => {
    const id = decodeURIComponent(location.hash.slice(1));
    const target = id && document.getElementById(id);
    if (!target) return;
    for (let node = target; node; node = node.parentElement) if (node.tagName === "DETAILS") node.open = true;
    (target.closest("details") || target).scrollIntoView();
  };
  addEventListener("hashchange", reveal);
  document.addEventListener("click", event => {
    const link = event.target.closest('a[href^="#rule-"]');
    if (link && link.getAttribute("href") === location.hash) reveal();
  });

  // Paper shows everything that is on the page, whatever is folded.
  let folded = [];
  addEventListener("beforeprint", () => {
    folded = all("details:not([open])").filter(node => !node.closest("[hidden]") && !node.matches(".rule"));
    for (const node of folded) node.open = true;
  });
  addEventListener("afterprint", () => { for (const node of folded) node.open = false; });

  if (!form) return;
  const field = form.elements;
  const files = all(".file").map(node => ({
    node, name: node.dataset.file, tally: node.querySelector(".tally"), cells: [...node.querySelectorAll(".cell")],
    findings: [...node.querySelectorAll(".finding")].map(node => ({node, data: node.dataset, words: ""})),
  }));
  const total = files.reduce((sum, file) => sum + file.findings.length, 0);
  const shown = document.getElementById("shown");
  const nothing = document.getElementById("nothing");
  const fold = document.getElementById("fold");
  const fits = (wanted, fix) => !wanted || wanted === fix || (wanted === "any" && fix !== "none");

  const wordsOf = (file, finding) => {
    if (!finding.words) finding.words = `${file.name} ${finding.node.textContent}`.toLowerCase();
    return finding.words;
  };
  const apply = () => {
    const grades = new Set(all("#filters [name=grade]:checked").map(box => box.value));
    const texts = field.text.value.toLowerCase().split(/\s+/).filter(Boolean);
    const [family, rule, fix, only] = ["family", "rule", "fix", "file"].map(name => field[name].value);
    let count = 0;
    for (const file of files) {
      const right = !only || only === file.name;
      let here = 0;
      for (const finding of file.findings) {
        const data = finding.data;
        const fit = right && grades.has(data.grade) && (!family || family === data.family) && (!rule || rule === data.rule)
          && fits(fix, data.fix) && (!texts.length || texts.every(text => wordsOf(file, finding).includes(text)));
        finding.node.hidden = !fit;
        here += fit;
      }
      file.node.hidden = !here;
      file.tally.textContent = here === file.findings.length ? `${here}` : `${here} of ${file.findings.length}`;
      if (here) for (const cell of file.cells) cell.hidden = !cell.querySelector(".finding:not([hidden])");
      count += here;
    }
    for (const select of all("#filters select")) select.classList.toggle("set", select.value !== "");
    shown.textContent = count === total ? `${total} shown` : `${count} of ${total} shown`;
    nothing.hidden = count > 0;
  };

  let waiting = 0;
  const later = () => { clearTimeout(waiting); waiting = setTimeout(apply, 80); };
  form.addEventListener("input", event => event.target === field.text ? later() : apply());
  form.addEventListener("submit", event => { event.preventDefault(); apply(); });
  form.addEventListener("reset", () => setTimeout(apply));
  fold.addEventListener("click", () => {
    const open = fold.getAttribute("aria-pressed") !== "true";
    for (const file of files) for (const finding of file.findings) finding.node.open = open;
    fold.setAttribute("aria-pressed", String(open));
    fold.textContent = open ? "Collapse all" : "Expand all";
  });
  document.addEventListener("click", event => {
    const link = event.target.closest("a[data-filter]");
    if (!link) return;
    event.preventDefault();
    form.reset();
    field[link.dataset.filter].value = link.dataset.value;
    apply();
    const findings = document.getElementById("findings");
    findings.scrollIntoView();
    findings.focus({preventScroll: true});
  });

  const step = by => {
    const heads = all(".finding:not([hidden]) > summary");
    if (!heads.length) return;
    const at = heads.indexOf(document.activeElement);
    const next = heads[at < 0 ? 0 : Math.min(Math.max(at + by, 0), heads.length - 1)];
    next.focus({preventScroll: true});
    next.scrollIntoView({block: "center"});
  };
  document.addEventListener("keydown", event => {
    const typing = event.target.matches("input[type=search], select");
    if (event.key === "Escape" && event.target === field.text) { field.text.value = ""; apply(); return; }
    if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "/") { event.preventDefault(); field.text.focus(); }
    else if (event.key === "j") step(1);
    else if (event.key === "k") step(-1);
  });

  form.hidden = false;
  apply();
  reveal();
})();
