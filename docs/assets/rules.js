// Filters the tables of rules/index: by words, fix, default and severity. Without scripts all rows are shown.
(function () {
  const bar = document.querySelector(".rule-filter");
  if (!bar) return;
  const field = (name) => document.getElementById(`rule-${name}`);
  const rows = [...document.querySelectorAll(".md-content table tbody tr")].filter((row) => row.cells.length === 5);
  const facts = rows.map((row) => ({
    row,
    text: row.textContent.toLowerCase(),
    fix: row.cells[2].textContent.split(",").map((word) => word.trim()),
    default: [row.cells[3].textContent.trim()],
    severity: [row.cells[4].textContent.trim()],
  }));

  // A family's heading, sentence and table go together: all that stands before its table up to the one before.
  const family = (table) => {
    const block = table.closest(".md-typeset__scrollwrap") || table;
    const found = [block];
    for (let node = block.previousElementSibling; node; node = node.previousElementSibling) {
      found.push(node);
      if (node.tagName === "H2") break;
    }
    return found;
  };

  function filter() {
    const words = field("text").value.toLowerCase().split(/\s+/).filter(Boolean);
    const picked = ["fix", "default", "severity"].map((name) => [name, field(name).value]);
    let shown = 0;
    for (const fact of facts) {
      const fits = words.every((word) => fact.text.includes(word)) &&
        picked.every(([name, value]) => !value || fact[name].includes(value));
      fact.row.hidden = !fits;
      shown += fits;
    }
    for (const table of new Set(rows.map((row) => row.closest("table")))) {
      const empty = [...table.tBodies[0].rows].every((row) => row.hidden);
      family(table).forEach((node) => { node.hidden = empty; });
    }
    field("count").textContent = `${shown} of ${rows.length}`;
  }

  bar.hidden = false;
  bar.addEventListener("input", filter);
  filter();
})();
