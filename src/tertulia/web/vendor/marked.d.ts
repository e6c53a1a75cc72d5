// Types of what the page uses of marked: its lexer.
export interface Token {
  type: string;
  raw: string;
  text: string;
  tokens?: Token[];
  [field: string]: any;
}
export class Lexer {
  constructor(options?: Record<string, unknown>);
  lex(text: string): Token[];
}
