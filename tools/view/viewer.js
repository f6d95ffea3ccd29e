"use strict";
// Text of trajectories is only ever set as text (textContent, text nodes, properties), never parsed as HTML.
(() => {
  const byId = (id) => document.getElementById(id);
  const records = JSON.parse(byId("data").textContent);
  const side = byId("side"), list = byId("list"), detail = byId("detail"), help = byId("help");
  const search = byId("search"), outcome = byId("outcome"), stop = byId("stop"), order = byId("order");
  const narrow = matchMedia("(max-width: 55rem)");
  let shown = [];
  let selected = null;

  // --- text

  const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g;
  const visible = (text) =>
    String(text).replace(/\r\n/g, "\n").replace(HIDDEN, (char) =>
      `⟦U+${char.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}⟧`);
  const brief = (text, most) => (text.length > most ? `${text.slice(0, most)}…` : text);
  const signed = (value) => (value < 0 ? "−" : "+") + Math.abs(value).toFixed(3);

  function make(tag, className, text) {
    const node = document.createElement(tag);
    if (className) node.className = className;
    if (text !== undefined && text !== null) node.textContent = visible(text);
    return node;
  }

  function put(parent, ...children) {
    parent.append(...children.filter(Boolean));
    return parent;
  }

  // --- what the list needs of a record

  const resultOf = (record) => (record.failure ? "failed" : record.right ? "right" : "wrong");
  const rewardsOf = (record) =>
    record.turns.map((turn) => turn.score && turn.score.reward).filter((reward) => typeof reward === "number");
  const largest = (record) => Math.max(-1, ...rewardsOf(record).map(Math.abs));
  const texts = new Map();

  function textOf(record) {
    if (!texts.has(record)) {
      const parts = [record.id, record.question, record.prediction, record.failure, ...record.answers.flat()];
      for (const turn of record.turns) parts.push(turn.memory, turn.thought, turn.action_text, turn.observation);
      texts.set(record, parts.filter(Boolean).join("\n").toLowerCase());
    }
    return texts.get(record);
  }

  const ORDERS = {
    reward: (a, b) => largest(b) - largest(a),
    turns: (a, b) => b.turns.length - a.turns.length,
  };

  // --- the list

  const linkTo = (record) => `#${encodeURIComponent(record.id)}`;

  function update() {
    const wanted = search.value.trim().toLowerCase();
    shown = records.filter((record) =>
      (!outcome.value || resultOf(record) === outcome.value) &&
      (!stop.value || record.stop === stop.value) &&
      (!wanted || textOf(record).includes(wanted)));
    if (order.value) shown.sort(ORDERS[order.value]);
    list.replaceChildren(...shown.map(entry));
    byId("count").value = `${shown.length} of ${records.length}`;
    if (!shown.includes(selected) && shown.length) go(shown[0]);
    else mark();
  }

  const MARKS = { right: "✓", wrong: "✗", failed: "!" };

  function entry(record) {
    const result = resultOf(record);
    const link = make("a");
    link.href = linkTo(record);
    const sign = make("span", `mark ${result}`, MARKS[result]);
    sign.setAttribute("role", "img");
    sign.setAttribute("aria-label", result);
    const rewards = rewardsOf(record);
    const facts = [
      record.step === null ? "" : `step ${record.step}`,
      `${record.turns.length} turns`,
      record.stop && record.stop !== "answered" ? record.stop : "",
      rewards.length ? `reward ${signed(rewards.reduce((a, b) => (Math.abs(b) > Math.abs(a) ? b : a)))}` : "",
    ];
    const words = put(make("span", "words"), make("bdi", "question", brief(record.question, 160)),
      make("span", "soft", facts.filter(Boolean).join(" · ")));
    return put(make("li"), put(link, sign, words));
  }

  function mark() {
    list.querySelectorAll("[aria-current]").forEach((link) => link.removeAttribute("aria-current"));
    const item = list.children[shown.indexOf(selected)];
    if (!item) return;
    item.firstChild.setAttribute("aria-current", "true");
    if (!narrow.matches) item.scrollIntoView({ block: "nearest" });
  }

  // --- one trajectory

  function show(record) {
    selected = record;
    document.title = brief(visible(record.question), 80);
    detail.replaceChildren(heading(record), facts(record), legend(record),
      ...record.turns.map((turn, index) => turnOf(record, turn, index)));
    if (record.failure) detail.append(block("Why it failed", record.failure, "failed"));
    detail.scrollTop = 0;
    if (narrow.matches) window.scrollTo(0, 0);
    mark();
  }

  function heading(record) {
    const moves = make("div", "moves");
    for (const [by, label] of [[-1, "‹ Previous"], [1, "Next ›"]]) {
      const button = make("button", "", label);
      button.type = "button";
      button.addEventListener("click", () => move(by));
      moves.append(button);
    }
    const title = make("h2", "", brief(record.question, 2000));
    title.dir = "auto";
    return put(make("header"), moves, title);
  }

  function facts(record) {
    const all = make("dl", "facts");
    const add = (name, value, className) => {
      if (value === null || value === undefined || value === "") return;
      const text = make("dd", className, value);
      text.dir = "auto";
      put(all, put(make("div"), make("dt", "", name), text));
    };
    const result = resultOf(record);
    add("Outcome", `${MARKS[result]} ${result}`, result);
    add("Gold", record.answers.map((aliases) => aliases.join(" / ")).join("; "));
    add("Answer", record.prediction === null ? "none" : brief(record.prediction, 2000));
    add("EM, F1", `${record.em.toFixed(2)}, ${record.f1.toFixed(2)}`);
    add("Reward", String(+record.reward.toFixed(4)));
    add("Format", record.format_ok ? "right" : record.format_reason || "wrong");
    add("Ending", record.stop);
    add("Step", record.step);
    add("Trajectory", record.id, "id");
    return all;
  }

  const largestAdvantage = (record) =>
    record.turns.reduce((most, turn) => turn.pieces.reduce((m, [, value]) => Math.max(m, Math.abs(value)), most), 0);

  function legend(record) {
    const scale = largestAdvantage(record);
    const named = record.reference === "history" ? "P_full" : "P_previous";
    let text = "";
    if (record.turns.some((turn) => turn.pieces.length)) {
      text = `Colour of written tokens: their advantage, from −${scale.toFixed(2)} to +${scale.toFixed(2)}.`;
    } else if (rewardsOf(record).length) {
      text = `Colour of a memory: its reward, P_mem − ${named}. The advantages of single tokens are not in this file.`;
    } else {
      text = "No colours: this file holds neither memory rewards nor advantages.";
    }
    return put(make("p", "soft legend"), coloured(make("span", "sample", "below 0"), -1, 1),
      coloured(make("span", "sample", "above 0"), 1, 1), document.createTextNode(text));
  }

  function coloured(node, value, scale) {
    if (!value) return node;
    node.classList.add(value > 0 ? "positive" : "negative");
    node.style.setProperty("--strength", (0.05 + 0.45 * Math.min(1, Math.abs(value) / (scale || 1))).toFixed(3));
    return node;
  }

  function turnOf(record, turn, index) {
    const article = make("article");
    const head = put(make("header"), make("h3", "", `Turn ${index + 1}`), ...scoreOf(record, turn.score));
    put(article, head, memoryOf(turn), turn.thought ? block("Thought", turn.thought) : null);
    if (turn.action === "search") put(article, block("Query", turn.action_text, "query"));
    else if (turn.action === "answer") put(article, block("Answer", turn.action_text, "answer"));
    else put(article, block("No action", turn.action_text || turn.problem || "neither a search nor an answer", "failed"));
    if (turn.problem && turn.action_text) put(article, block("Problem", turn.problem, "failed"));
    if (turn.format_problem) put(article, block("Format", turn.format_problem, "failed"));
    if (turn.finish === "length") put(article, block("Cut", "the turn used up its tokens", "failed"));
    if (turn.observation || turn.observation_status !== "none") {
      const ok = turn.observation_status === "ok";
      put(article, block(ok ? "Observation" : `Observation (${turn.observation_status})`, turn.observation, "observation"));
    }
    if (turn.pieces.length) put(article, tokensOf(record, turn));
    return article;
  }

  const WHY_UNSCORED = {
    first: "the first memory has nothing before it to be compared with",
    missing: "no memory",
    unclosed: "memory not closed",
    too_long: "too long to be scored",
    no_signal: "no signal: no token of the answer is above the threshold",
  };

  function scoreOf(record, score) {
    if (!score) return [];
    if (typeof score.reward !== "number") return [make("span", "soft", WHY_UNSCORED[score.status] || score.status)];
    const named = record.reference === "history" ? "P_full" : "P_previous";
    return [
      gauge("P_mem", score.p_memory),
      gauge(named, score.p_reference),
      coloured(make("span", "chip", `reward ${signed(score.reward)}`), score.reward, 1),
    ];
  }

  function gauge(name, value) {
    const fill = make("span");
    fill.style.width = `${(100 * value).toFixed(1)}%`;
    const bar = put(make("span", "gauge"), fill);
    bar.setAttribute("aria-hidden", "true");
    return put(make("span", "measure", `${name} ${value.toFixed(3)} `), bar);
  }

  function memoryOf(turn) {
    const length = turn.memory_tokens === null ? turn.memory_status : `${turn.memory_tokens} tokens`;
    const node = block(`Memory (${length})`, turn.memory || "(empty)", "memory");
    if (turn.score && typeof turn.score.reward === "number" && !turn.pieces.length) {
      coloured(node.lastChild, turn.score.reward, 1);
    }
    return node;
  }

  function block(name, text, className) {
    const node = make("div", `block ${className || ""}`);
    const body = make("div", "text", text);
    body.dir = "auto";
    if (body.textContent.length > 1500) body.tabIndex = 0; // it scrolls
    return put(node, make("div", "name", name), body);
  }

  function tokensOf(record, turn) {
    const scale = largestAdvantage(record);
    const node = block("As written, by advantage", "", "tokens");
    for (const [text, value] of turn.pieces) {
      const piece = coloured(make("span", "", text), value, scale);
      piece.title = `advantage ${signed(value)}`;
      node.lastChild.append(piece);
    }
    return node;
  }

  // --- moving about

  function go(record) {
    show(record);
    if (location.hash !== linkTo(record)) location.replace(linkTo(record));
  }

  function follow() {
    const found = records.find((record) => linkTo(record) === location.hash);
    if (found && found !== selected) {
      show(found);
      if (narrow.matches) open(false);
    }
    return found;
  }

  function move(by) {
    const place = shown.indexOf(selected);
    const next = shown[place < 0 ? 0 : place + by];
    if (next) go(next);
  }

  function open(yes) {
    side.classList.toggle("closed", !yes);
    byId("toggle").setAttribute("aria-expanded", String(yes));
  }

  const STEPS = { j: 1, ArrowRight: 1, k: -1, ArrowLeft: -1 };
  const STEPS_IN_LIST = { ArrowDown: 1, ArrowUp: -1 };

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || help.open) return;
    if (event.target.matches("input, select")) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    const by = STEPS[event.key] || (list.contains(event.target) && STEPS_IN_LIST[event.key]);
    if (by) {
      move(by);
      const current = list.contains(event.target) && list.querySelector("[aria-current]");
      if (current) current.focus();
    } else if (event.key === "/") {
      open(true);
      search.focus();
    } else if (event.key === "?") help.showModal();
    else return;
    event.preventDefault();
  });

  let waiting = 0;
  search.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(update, 150);
  });
  for (const choice of [outcome, stop, order]) choice.addEventListener("change", update);
  byId("toggle").addEventListener("click", () => open(side.classList.contains("closed")));
  byId("ask").addEventListener("click", () => help.showModal());
  narrow.addEventListener("change", () => open(!narrow.matches));
  window.addEventListener("hashchange", follow);

  open(!narrow.matches);
  follow();
  update();
})();
