//! Texts that distinguish tokenizers.

/// Texts that distinguish tokenizers, each by rules that only some pre-tokenizers have. All
/// characters are in composed form (NFC), because GGUF's tokenizers do not compose characters.
pub(super) const PROBES: &[&str] = &[
    "",
    "Hello, world! The quick brown fox jumps over the lazy dog.",
    " leading, trailing ",
    "two  spaces   three    four\ttab \t both  \n \n\nnewlines\r\n\r\nx   \n   y",
    "I'm you're we've it's he'll I'd don't I'M YOU'RE WE'VE IT'S HE'LL I'D DON'T 'twas o'clock",
    "a 1 12 123 1234 12345 1234567 12.5 1,000,000 x1y22z333 ３４５ ½ ²³ Ⅷ ١٢٣٤",
    "camelCase PascalCase SCREAMING ALLCapsThenLower iPhone HTTPServer xX Éa ÀB ǅx ʰa",
    "snake_case __dunder__ a-b a--b ---- ==== <<>> {}[]() #!/bin/sh a/b\\c //comment\n/* x */ ...\n!!! ???\n\n",
    "foo(bar)->baz::qux += \"quoted\" 'single' `code` $5 €6 £7 100% ~x ^y |z <html></html> a@b.c",
    "Zażółć gęślą jaźń, crème brûlée, naïve café, Straße ŒUVRE İstanbul",
    "Привет, МИР! Съешь ещё этих мягких булок. Ελλάδα ΚΑΛΗΜΕΡΑ Հայաստան ქართული",
    "你好，世界！我在北京。中文abc混合123文字 繁體字、頓號…「引號」",
    "こんにちは世界 カタカナ ひらがな ｶﾅ 한국어 문장입니다. 대한민국 ㄱㄴㄷ ㄅㄆㄇ",
    "مرحبا بالعالم، كيف الحال؟ שָׁלוֹם עולם नमस्ते दुनिया। ไทยภาษา ລາວ ខ្មែរ မြန်မာ",
    "🦊🚀 emoji👍🏽👨‍👩‍👧‍👦 ☃ ♥ → ∑ ∀x∈ℝ 𝒳 𐍈 ꜱ ꟼ",
    "q\u{323} a\u{20D7}b \u{93F} x\u{0305}y",
    "\u{a0}nbsp\u{2003}em\u{3000}ideographic\u{200b}zero\u{feff} \u{85}nel",
    "                                                                                  far",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!!!!!!!!!!!!!!!!!!!!!!!!",
    "'stop 'tis 'Sabc 'llama 'restless 'DAY",
    "n   12   345\n  6\n\n7  ٨ a    9b   1a\t\t10 ,  11",
    "x\n\n\n\ny\n z\n\t\tw \n",
    ".hello ,World !abc/def\n/ghi ?JKL -mno (Pqr \u{201c}stu\u{201d} \u{2014}vwx",
];
