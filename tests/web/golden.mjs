// Folds golden cases of the reducer with the page's own one. In node: reads {name: [event, ...]} from standard input and
// prints {name: {board, different, stopped}}; in a page: `foldCases` does the same.

const web = globalThis.document ? "" : "../../src/tertulia/web";
const { Board } = await import(`${web}/board/board.js`);
const { readSnapshot, writeSnapshot } = await import(`${web}/board/snapshot.js`);

const clone = (value) => JSON.parse(JSON.stringify(value));

/** The board after all events, after which of them a snapshot does not go on to the same, and the board once its process is gone. */
export function foldCases(cases) {
  return Object.fromEntries(Object.entries(cases).map(([name, events]) => [name, foldCase(events)]));
}

function foldCase(events) {
  const board = writeSnapshot(fold(new Board(), clone(events)));
  const different = events.flatMap((_, cut) => {
    const half = readSnapshot(clone(writeSnapshot(fold(new Board(), clone(events.slice(0, cut))))));
    return sorted(writeSnapshot(fold(half, clone(events.slice(cut))))) === sorted(board) ? [] : [cut];
  });
  const ended = fold(new Board(), clone(events));
  ended.stop();
  return { board, different, stopped: writeSnapshot(ended) };
}

function fold(board, events) {
  for (const event of events) board.take(event);
  return board;
}

/** JSON with the keys in order, so that equal values are equal texts. */
function sorted(value) {
  return JSON.stringify(value, (_, part) =>
    part && typeof part === "object" && !Array.isArray(part)
      ? Object.fromEntries(Object.entries(part).sort(([a], [b]) => (a < b ? -1 : 1)))
      : part,
  );
}

if (!globalThis.document) {
  let text = "";
  for await (const chunk of process.stdin.setEncoding("utf8")) text += chunk;
  console.log(JSON.stringify(foldCases(JSON.parse(text))));
}
