// The names of TeX's symbols, macros and environments, and what they look like.

const pairs = (text) => {
  const words = text.trim().split(/\s+/);
  return new Map(Array.from({ length: words.length / 2 }, (_, i) => [words[2 * i], words[2 * i + 1]]));
};

// Variables, which are written in italics.
export const LETTERS = pairs(`
  alpha α beta β gamma γ delta δ epsilon ϵ varepsilon ε zeta ζ eta η theta θ vartheta ϑ iota ι kappa κ varkappa ϰ lambda λ
  mu μ nu ν xi ξ omicron ο pi π varpi ϖ rho ρ varrho ϱ sigma σ varsigma ς tau τ upsilon υ phi ϕ varphi φ chi χ psi ψ
  omega ω imath ı jmath ȷ ell ℓ`);

// Signs that stand for a thing, written upright.
export const UPRIGHT = pairs(`
  Gamma Γ Delta Δ Theta Θ Lambda Λ Xi Ξ Pi Π Sigma Σ Upsilon Υ Phi Φ Psi Ψ Omega Ω infty ∞ partial ∂ nabla ∇ hbar ℏ
  aleph ℵ beth ℶ Re ℜ Im ℑ wp ℘ emptyset ∅ varnothing ∅ forall ∀ exists ∃ nexists ∄ top ⊤ bot ⊥ angle ∠ measuredangle ∡
  triangle △ square □ Box □ blacksquare ■ diamond ⋄ bigstar ★ clubsuit ♣ heartsuit ♡ spadesuit ♠ diamondsuit ♢ checkmark ✓
  degree ° prime ′ dagger † ddagger ‡ S § P ¶ pounds £ copyright © backslash \\ flat ♭ natural ♮ sharp ♯ % % $ $ # # _ _ & &`);

export const OPERATORS = pairs(`
  times × div ÷ cdot ⋅ pm ± mp ∓ ast ∗ star ⋆ circ ∘ bullet ∙ oplus ⊕ ominus ⊖ otimes ⊗ odot ⊙ oslash ⊘ cap ∩ cup ∪
  sqcap ⊓ sqcup ⊔ uplus ⊎ setminus ∖ smallsetminus ∖ wedge ∧ land ∧ vee ∨ lor ∨ neg ¬ lnot ¬ amalg ⨿ ltimes ⋉ rtimes ⋊
  leq ≤ le ≤ geq ≥ ge ≥ leqslant ⩽ geqslant ⩾ neq ≠ ne ≠ equiv ≡ approx ≈ sim ∼ simeq ≃ cong ≅ propto ∝ ll ≪ gg ≫
  lll ⋘ ggg ⋙ lt < gt > prec ≺ succ ≻ preceq ⪯ succeq ⪰ asymp ≍ doteq ≐ triangleq ≜ coloneqq ≔ lesssim ≲ gtrsim ≳
  in ∈ notin ∉ ni ∋ subset ⊂ supset ⊃ subseteq ⊆ supseteq ⊇ subsetneq ⊊ supsetneq ⊋ sqsubseteq ⊑ sqsupseteq ⊒
  mid ∣ nmid ∤ parallel ∥ nparallel ∦ perp ⊥ vdash ⊢ dashv ⊣ models ⊨ vDash ⊨ bowtie ⋈ smile ⌣ frown ⌢
  to → rightarrow → leftarrow ← gets ← leftrightarrow ↔ Rightarrow ⇒ Leftarrow ⇐ Leftrightarrow ⇔ iff ⟺ implies ⟹ impliedby ⟸
  longrightarrow ⟶ longleftarrow ⟵ longleftrightarrow ⟷ Longrightarrow ⟹ Longleftarrow ⟸ Longleftrightarrow ⟺
  mapsto ↦ longmapsto ⟼ hookrightarrow ↪ hookleftarrow ↩ uparrow ↑ downarrow ↓ updownarrow ↕ Uparrow ⇑ Downarrow ⇓
  nearrow ↗ searrow ↘ swarrow ↙ nwarrow ↖ rightleftharpoons ⇌ leftrightharpoons ⇋ rightharpoonup ⇀ rightharpoondown ⇁
  leftharpoonup ↼ leftharpoondown ↽ rightsquigarrow ⇝ leadsto ⇝ nrightarrow ↛ nleftarrow ↚
  dots … ldots … dotsc … dotso … cdots ⋯ dotsb ⋯ dotsm ⋯ dotsi ⋯ vdots ⋮ ddots ⋱ therefore ∴ because ∵ colon :`);

// Operators with limits: beside them in a line, above and below them in a formula of its own.
export const LARGE = pairs(`
  sum ∑ prod ∏ coprod ∐ bigcup ⋃ bigcap ⋂ bigsqcup ⨆ bigvee ⋁ bigwedge ⋀ bigoplus ⨁ bigotimes ⨂ bigodot ⨀ biguplus ⨄`);

export const INTEGRALS = pairs("int ∫ iint ∬ iiint ∭ oint ∮ oiint ∯");

export const FUNCTIONS = new Set(
  `sin cos tan cot sec csc arcsin arccos arctan sinh cosh tanh coth exp log ln lg arg deg dim hom ker`.split(" "),
);

// Functions whose subscript is written below them.
export const LIMITS = new Map(`lim max min sup inf det gcd Pr argmax argmin`.split(" ").map((name) => [name, name]));
LIMITS.set("limsup", "lim sup").set("liminf", "lim inf");

// "(", ")", "[" and "]" need no name.
export const FENCES = pairs(`
  { { } } | ‖ vert | lvert | rvert | Vert ‖ lVert ‖ rVert ‖ langle ⟨ rangle ⟩ lfloor ⌊ rfloor ⌋
  lceil ⌈ rceil ⌉ lbrace { rbrace } lbrack [ rbrack ] lgroup ⟮ rgroup ⟯`);

export const OPENING = new Set("([{⟨⌊⌈⟮");
export const CLOSING = new Set(")]}⟩⌋⌉⟯");

// [sign, whether it stretches]
export const ACCENTS = new Map([
  ["hat", ["^", false]],
  ["widehat", ["^", true]],
  ["tilde", ["~", false]],
  ["widetilde", ["~", true]],
  ["bar", ["ˉ", false]],
  ["overline", ["‾", true]],
  ["vec", ["→", false]],
  ["overrightarrow", ["→", true]],
  ["overleftarrow", ["←", true]],
  ["dot", ["˙", false]],
  ["ddot", ["¨", false]],
  ["check", ["ˇ", false]],
  ["breve", ["˘", false]],
  ["acute", ["ˊ", false]],
  ["grave", ["ˋ", false]],
  ["mathring", ["˚", false]],
  ["overbrace", ["⏞", true]],
]);

export const ACCENTS_BELOW = new Map([
  ["underline", "‾"],
  ["underbrace", "⏟"],
]);

// Widths in em.
export const SPACES = new Map([
  [",", 0.17],
  ["thinspace", 0.17],
  [":", 0.22],
  [">", 0.22],
  [";", 0.28],
  ["!", -0.17],
  [" ", 0.25],
  ["enspace", 0.5],
  ["quad", 1],
  ["qquad", 2],
]);

export const STRETCHED_ARROWS = pairs(`
  xrightarrow → xleftarrow ← xleftrightarrow ↔ xRightarrow ⇒ xLeftarrow ⇐ xLeftrightarrow ⇔ xmapsto ↦
  xhookrightarrow ↪ xrightleftharpoons ⇌`);

// The first code points of Unicode's alphabets: [capital A, small a, digit 0, capital alpha, small alpha]; 0: there is none.
const ALPHABETS = {
  bb: [0x1d538, 0x1d552, 0x1d7d8, 0, 0],
  cal: [0x1d49c, 0x1d4b6, 0, 0, 0],
  frak: [0x1d504, 0x1d51e, 0, 0, 0],
  bf: [0x1d400, 0x1d41a, 0x1d7ce, 0, 0],
  boldsymbol: [0x1d468, 0x1d482, 0x1d7ce, 0x1d6a8, 0x1d736],
  sf: [0x1d5a0, 0x1d5ba, 0x1d7e2, 0, 0],
  tt: [0x1d670, 0x1d68a, 0x1d7f6, 0, 0],
};

// Letters that Unicode had before it had the alphabets.
const OLDER = {
  bb: pairs("C ℂ H ℍ N ℕ P ℙ Q ℚ R ℝ Z ℤ"),
  cal: pairs("B ℬ E ℰ F ℱ H ℋ I ℐ L ℒ M ℳ R ℛ e ℯ g ℊ o ℴ"),
  frak: pairs("C ℭ H ℌ I ℑ R ℜ Z ℨ"),
};

// Macros for fonts; "rm" and "it" have no alphabet.
export const FONTS = pairs(`
  mathbb bb mathcal cal mathscr cal mathfrak frak mathbf bf bold bf boldsymbol boldsymbol bm boldsymbol mathsf sf mathtt tt
  mathrm rm mathit it mathnormal it`);

const STARTS = ["A", "a", "0", "Α", "α"].map((character) => character.codePointAt(0));
const LENGTHS = [26, 26, 10, 25, 25];

// The character in the alphabet of a font. Characters that it does not have stay.
export function inFont(character, font) {
  const older = OLDER[font]?.get(character);
  if (older) return older;
  const code = character.codePointAt(0);
  const kind = STARTS.findIndex((start, i) => code >= start && code < start + LENGTHS[i]);
  const first = ALPHABETS[font]?.[kind];
  return first ? String.fromCodePoint(first + code - STARTS[kind]) : character;
}

export const DELIMITERS = new Map([
  ...["(", ")", "[", "]", "|", "/"].map((c) => [c, c]),
  [".", ""],
  ["<", "⟨"],
  [">", "⟩"],
]);
export const TEXT = new Map([
  ["text", null],
  ["textrm", null],
  ["textnormal", null],
  ["mbox", null],
  ["textbf", "bold"],
  ["textit", "italic"],
]);
export const SIZES = new Map([
  ["big", 1.2],
  ["Big", 1.8],
  ["bigg", 2.4],
  ["Bigg", 3],
]);
export const FRACTIONS = new Map([
  ["frac", {}],
  ["dfrac", { displaystyle: "true" }],
  ["cfrac", { displaystyle: "true" }],
  ["tfrac", { displaystyle: "false" }],
]);
export const BINOMIALS = new Map([
  ["binom", {}],
  ["dbinom", { displaystyle: "true" }],
  ["tbinom", { displaystyle: "false" }],
]);
export const STYLES = new Map([
  ["displaystyle", { displaystyle: "true" }],
  ["textstyle", { displaystyle: "false" }],
]);

// [fence before, fence after, class of the table]
export const ENVIRONMENTS = new Map([
  ["matrix", ["", "", ""]],
  ["smallmatrix", ["", "", ""]],
  ["array", ["", "", ""]],
  ["pmatrix", ["(", ")", ""]],
  ["bmatrix", ["[", "]", ""]],
  ["Bmatrix", ["{", "}", ""]],
  ["vmatrix", ["|", "|", ""]],
  ["Vmatrix", ["‖", "‖", ""]],
  ["cases", ["{", "", "cases"]],
  ["rcases", ["", "}", "cases"]],
  ...["aligned", "align", "align*", "split", "alignat*"].map((name) => [name, ["", "", "aligned"]]),
  ...["gathered", "gather", "gather*", "equation", "equation*"].map((name) => [name, ["", "", "gathered"]]),
]);
