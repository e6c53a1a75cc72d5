// Text as people see it: nothing in it can hide or move. The same as `printable` of policy/display_text.py.

const ORDINARY = /^[ -~\n\t]*$/;
/** Joiners within emoji and words, signs of coloured emoji, three flags; or else what a screen would obey or not show. */
const UNSEEN = new RegExp(
  "\\p{ExtPict}\\ufe0f?\\p{EMod}?(?:\\u200d\\p{ExtPict}\\ufe0f?\\p{EMod}?)+|\\p{ExtPict}[\\ufe0e\\ufe0f]|[0-9#*]\\ufe0f\\u20e3" +
    "|\\u{1f3f4}\\u{e0067}\\u{e0062}(?:\\u{e0065}\\u{e006e}\\u{e0067}|\\u{e0073}\\u{e0063}\\u{e0074}|\\u{e0077}\\u{e006c}\\u{e0073})\\u{e007f}" +
    "|(?<=[\\u0620-\\u0dff])[\\u200c\\u200d](?=[\\u0620-\\u0dff])|[\\n\\t\\u0600-\\u0605\\u06dd\\u070f\\u0890\\u0891\\u08e2]" +
    "|([\\p{Cc}\\p{Cf}\\p{Cs}\\p{Zl}\\p{Zp}\\u034f\\u115f\\u1160\\u17b4\\u17b5\\u3164\\uffa0\\u180b-\\u180f\\ufe00-\\ufe0f\\u2065\\ufff0-\\ufff8\\u{e0000}-\\u{e0fff}]" +
    "|(?<=\\p{M}{8})\\p{M})",
  "gu",
);

/** Characters that would hide, or move others, are written as ⟨U+202E⟩. @param {string} text */
export function printable(text) {
  if (ORDINARY.test(text)) return text;
  return text.replace(/\r\n/g, "\n").replace(UNSEEN, (found, unseen) => (unseen ? `⟨U+${(unseen.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}⟩` : found));
}
