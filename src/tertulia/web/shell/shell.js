// The frame of the page: the bar above, the conversations, the transcript, the panels.

import { counted, namesOf } from "../board/text.js";
import { classes, html, useEffect } from "../parts/html.js";
import { app, useTopics } from "../app_state.js";
import { openQuestions } from "../approvals/approvals.js";
import { Composer } from "../transcript/composer.js";
import { Lanes } from "../timeline/lanes.js";
import { lazy } from "../parts/lazy.js";
import { PANELS } from "../panels/panels.js";
import { SessionBanner } from "../sessions/banner.js";
import { SessionsMenu } from "../sessions/menu.js";
import { ThemeButton } from "./theme.js";
import { Totals } from "./totals.js";
import { Transcript } from "../transcript/transcript.js";
import { Tree } from "./tree.js";

const Scrubber = lazy(async () => (await import("../timeline/scrubber.js")).Scrubber);
const SessionsPage = lazy(async () => (await import("../sessions/page.js")).SessionsPage);
const Refused = lazy(async () => (await import("./refused.js")).Refused);
const Help = lazy(async () => (await import("./help.js")).Help);

/** @type {Record<string, [string, string]>} */
const LINK_WORDS = {
  open: ["open", "connected"],
  connecting: ["away", "connecting…"],
  away: ["away", "server away, trying again"],
};

/** All of the page. */
export function Shell() {
  useTopics("route", "link", "questions", "help", `s/${app.route.session}`);
  const questions = openQuestions();
  useEffect(() => {
    document.title = questions.length ? `(${questions.length}) Tertulia` : "Tertulia";
  }, [questions.length]);
  if (app.link.state === "refused" || app.link.state === "no_token") return html`<${Refused} state=${app.link.state} />`;
  const feed = app.selected();
  const view = (app.route.conversation && feed?.board?.conversations.get(app.route.conversation)) || null;
  // A conversation that was just opened is known a little later.
  useTopics(...(view ? [] : [`s/${app.route.session}/c/${app.route.conversation}`]));
  // A session that the address names is followed as soon as there is a connection.
  const isList = !feed && !app.route.session;
  const writes = feed && view && !app.route.n && feed.state !== "stored" && feed.state !== "gone";
  return html`<div class=${classes("shell", `page-${app.route.page}`, isList && "all-sessions")}>
    ${writes && html`<a class="skip" href="#composer" onClick=${focusComposer}>Skip to the composer</a>`}
    <${TopBar} feed=${feed} view=${view} />
    <nav class="side" aria-label="Conversations">
      <h2>Conversations <span class="dim">${feed?.partial ? "…" : (feed?.board?.conversations.size ?? "")}</span></h2>
      ${feed && html`<${Tree} feed=${feed} />`}
    </nav>
    <main class="middle">
      ${feed && html`<${SessionBanner} feed=${feed} />`}
      ${feed && html`<${Lanes} key=${`l ${feed.sessionId}`} feed=${feed} />`}
      ${feed && view && html`<${Transcript} key=${view.id} feed=${feed} view=${view} />`}
      ${feed?.board && !view && !feed.partial && app.route.conversation && html`<p class="empty">This session has no such conversation. Choose one of those that it has.</p>`}
      ${writes && html`<${Composer} key=${`c ${view.id}`} feed=${feed} view=${view} />`}
      ${feed && app.route.n && html`<${Scrubber} key=${`r ${feed.sessionId}`} feed=${feed} />`}
      ${isList && html`<${SessionsPage} />`}
    </main>
    <aside class="beside" aria-label="Panels"><${Panels} all=${!isList} feed=${feed} view=${view} questions=${questions.length} /></aside>
    <${PageBar} questions=${questions.length} all=${!isList} />
    <div class="unseen" role="status">${questionsText(questions)}</div>
    <${Announcer} />
    ${app.helping && html`<${Help} />`}
  </div>`;
}

/** What a screen reader says when a question comes. @param {import("../approvals/approvals.js").OpenQuestion[]} questions */
function questionsText(questions) {
  const newest = questions.at(-1)?.cell.request;
  return newest ? `${counted(questions.length, "question waits", "questions wait")}: ${newest.title ?? newest.message}` : "";
}

/** @param {Event} event */
function focusComposer(event) {
  event.preventDefault();
  document.getElementById("composer")?.focus();
}

/** Who works for whom: of the chains at work the one with this conversation, else the way to it.
 * @param {import("../board/board.js").Board} board @param {string} id */
function chainText(board, id) {
  const chains = board.running().map((one) => board.chain(one));
  const chain = chains.find((one) => one.includes(id)) ?? board.chain(id);
  return chain.map(namesOf(board)).join(" › ") + (chain.length > 1 ? ", then back" : "");
}

/** @param {any} props */
function TopBar({ feed, view }) {
  useTopics("weave", "find", feed ? `s/${feed.sessionId}/tree` : "tree");
  const [look, word] = LINK_WORDS[app.link.state] ?? ["away", app.link.state];
  const chain = feed?.board && view ? chainText(feed.board, view.id) : "";
  return html`<header class="top">
    <h1><img src="/icon.svg" alt="" width="20" height="20" /> Tertulia</h1>
    <${SessionsMenu} />
    <span class="chain" title="From the first conversation that waits, down to the one that works">${chain}</span>
    <span class="space"></span>
    ${feed && html`<${Totals} feed=${feed} />`}
    <button type="button" class="quiet" aria-pressed=${app.finding} onClick=${() => app.setFinding(!app.finding)} title="Find (/)"><span class="icon" aria-hidden="true">⌕</span> <span class="word">Find</span></button>
    <button type="button" class="quiet" aria-pressed=${app.weave} onClick=${() => app.setWeave(!app.weave)}
      title="Read this conversation and all it asked others as one story (w)"><span class="icon" aria-hidden="true">≋</span> <span class="word">Weave</span></button>
    <${ThemeButton} />
    <button type="button" class="quiet keys-button" onClick=${() => app.setHelping(true)} title="Keys (?)" aria-label="Keys">?</button>
    <span class=${`link ${look}`} role="status">${word}</span>
  </header>`;
}

/** @param {any} props */
function Panels({ all, feed, view, questions }) {
  // Without a session there is nothing that the others could show.
  const panels = all ? PANELS : PANELS.slice(0, 1);
  const chosen = panels.find((panel) => panel.id === app.route.panel) ?? panels[0];
  const pressed = (/** @type {KeyboardEvent} */ event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const at = panels.findIndex((panel) => panel === chosen);
    const next = panels[(at + step + panels.length) % panels.length];
    if (next) app.go({ panel: next.id });
    requestAnimationFrame(() => document.getElementById(`choose-${next?.id}`)?.focus());
  };
  useEffect(() => document.getElementById(`choose-${chosen?.id}`)?.scrollIntoView({ block: "nearest", inline: "nearest" }), [chosen?.id, app.route.page]);
  return html`<div class="panel-choice" role="tablist" aria-label="Panels" onKeyDown=${pressed}>
      ${panels.map((panel) => html`<button type="button" role="tab" key=${panel.id} id=${`choose-${panel.id}`} aria-controls="panel"
        aria-selected=${panel === chosen} tabindex=${panel === chosen ? 0 : -1} onClick=${() => app.go({ panel: panel.id })}>
        ${panel.title}${panel.id === "approvals" && questions > 0 ? html` <span class="badge asking">${questions}</span>` : null}
      </button>`)}
    </div>
    <div class="panel" id="panel" role="tabpanel" tabindex="0" aria-labelledby=${`choose-${chosen?.id}`}>
      ${chosen && html`<${chosen.view} key=${chosen.id} feed=${feed} view=${view} />`}
    </div>`;
}

/** The three pages of a narrow screen; without a session two. @param {{questions: number, all: boolean}} props */
function PageBar({ questions, all }) {
  const pages = [...(all ? [["conversations", "Conversations"], ["transcript", "Transcript"]] : [["transcript", "Sessions"]]), ["panel", "Approvals"]];
  return html`<nav class="pages" aria-label="Pages">
    ${pages.map(([id, title]) => html`<button type="button" aria-current=${app.route.page === id ? "page" : undefined} onClick=${() => app.go({ page: id ?? "", ...(id === "panel" ? { panel: "approvals" } : {}) })}>
      ${title}${id === "panel" && questions > 0 ? html` <span class="badge asking">${questions}</span>` : null}
    </button>`)}
  </nav>`;
}

/** Says to people and to screen readers what they must know, and nothing else. */
function Announcer() {
  useTopics("notice");
  return html`<div class=${classes("toast", !app.notice && "empty-toast")} role="status" aria-live="polite">${app.notice}</div>`;
}
