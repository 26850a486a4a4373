// The scripts of the page are linted together as a single script.
const browser = Object.fromEntries(["window", "document", "getComputedStyle", "ResizeObserver"].map((name) => [name, "readonly"]));

export default [{
  languageOptions: { sourceType: "script", ecmaVersion: 2023, globals: { ...browser, d3: "readonly" } },
  linterOptions: { reportUnusedDisableDirectives: true },
  rules: {
    "no-undef": "error", "no-unused-vars": "error", "no-redeclare": "error", "no-shadow": "error", "prefer-const": "error",
    "no-var": "error", "eqeqeq": "error", "no-eval": "error", "no-implied-eval": "error", "no-implicit-globals": "error",
    "no-unreachable": "error", "no-dupe-keys": "error", "no-self-assign": "error", "consistent-return": "error",
    "max-lines-per-function": ["error", { max: 60 }], "no-warning-comments": "error", "strict": ["error", "function"],
    "no-restricted-properties": ["error", ...["innerHTML", "outerHTML", "html", "insertAdjacentHTML", "write"].map((property) =>
      ({ property, message: "text from files goes in as text" }))],
  },
}];
