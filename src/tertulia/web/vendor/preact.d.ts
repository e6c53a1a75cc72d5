// Types of what the page uses of preact.
export type Child = unknown;
export function h(type: any, props: any, ...children: any[]): any;
export function render(node: any, parent: Element): void;
export function Fragment(props: any): any;
export function createContext<T>(value: T): { Provider: any };
export abstract class Component<P = any, S = any> {
  constructor(props?: P);
  props: P;
  state: S;
  setState(state: Partial<S>): void;
  forceUpdate(): void;
  abstract render(props: P, state: S): any;
}
