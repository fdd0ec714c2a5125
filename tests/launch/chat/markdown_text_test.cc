// Markdown and lines of words on a terminal. `[b ...]` stands for bold, `[i ...]` for italic, `[c ...]` for
// code.
#include "launch/chat/markdown_text.h"

#include "launch/chat/wrapped_text.h"

#include <regex>
#include <string>

#include <gtest/gtest.h>

namespace tp::test {
namespace {

// Prints a text that comes in parts of `step` bytes.
std::string shown(const std::string& text, std::size_t step, std::size_t columns,
                  MarkdownText::Marks marks = MarkdownText::Marks::styled) {
  std::string out;
  WrappedText wrapped(columns, [&](std::string_view part) { out += part; });
  MarkdownText markdown(wrapped, marks);
  for (std::size_t i = 0; i < text.size(); i += step) markdown.add(text.substr(i, step));
  markdown.finish();
  const auto replace = [&](const char* codes, const char* name) {
    out = std::regex_replace(out, std::regex(codes), name);
  };
  replace("\x1b\\[0;1m", "[b ");
  replace("\x1b\\[0;3m", "[i ");
  replace("\x1b\\[0;36m", "[c ");
  replace("\x1b\\[0;1;3m", "[bi ");
  replace("\x1b\\[0m", "]");
  return out;
}

void expect_shown(const std::string& text, const std::string& expected, std::size_t columns = 60) {
  for (const std::size_t step : {std::size_t{1}, std::size_t{3}, text.size() + 1})
    EXPECT_EQ(shown(text, step, columns), expected) << "in parts of " << step << " bytes";
}

TEST(MarkdownText, ShowsEmphasisAndCode) {
  expect_shown("some **bold words**, *italic* and `code`.", "some [b bold words], [i italic] and [c code].");
  expect_shown("__bold__ _italic_ ***both***", "[b bold] [i italic] [bi both]");
  expect_shown("**bold with `code`**\nplain", "[b bold with \x1b[0;1;36mcode]\nplain");
  expect_shown("## A heading\ntext", "[b A heading]\ntext");
}

TEST(MarkdownText, KeepsWhatIsNoMarkdown) {
  for (const char* text :
       {"2 * 3 * 4", "2**3 and a*b*c", "snake_case_name", "*args, **kwargs", "an ` alone",
        "a line ends with *", "x = [1, 2]", "\\*stars\\*", "**never closed\nnext", "-5 degrees",
        "2024. A year", "| a | b |\n|---|---|", "---", "<b>text</b>", "$\\frac{1}{2}$"})
    expect_shown(text, text);
}

// A mark that closes late closes nothing, however the text arrives.
TEST(MarkdownText, LongSpansKeepTheirMarks) {
  const std::string text = "**" + std::string(600, 'a') + "**";
  expect_shown(text, text, 1000);
}

TEST(MarkdownText, FencesEndAtAsManyBackticks) {
  expect_shown("```ls -la``` is\nthe **command**", "[c ls -la] is\nthe [b command]");
  expect_shown("````\n```\n````\n**more**", "[c ```]\n[b more]");
}

TEST(MarkdownText, ListsHaveBulletsAndHangingIndents) {
  expect_shown("- one two three four\n  * five\n10. six seven eight",
               "\u2022 one two\n  three four\n  \u2022 five\n10. six seven\n    eight", 15);
}

TEST(MarkdownText, CodeIsNeverBrokenOrInterpreted) {
  expect_shown("text\n```python\ndef f(*a, **b):  # a long line of code\n    pass\n```\nmore",
               "text\n[c def f(*a, **b):  # a long line of code]\n[c     pass]\nmore", 20);
  expect_shown("```\nnever closed `x`", "[c never closed `x`]", 20);
}

TEST(MarkdownText, KeepsItsMarksWithoutStyles) {
  EXPECT_EQ(shown("# A\n- **b** `c`\n```\nd\n```\n", 2, 40, MarkdownText::Marks::kept),
            "# A\n- **b** `c`\n```\nd\n```\n");
}

TEST(WrappedText, BreaksBetweenWords) {
  expect_shown("one two three four five", "one two\nthree\nfour\nfive", 9);
  expect_shown("a very-long-word-indeed here", "a\nvery-long-word-indeed here", 10);
  expect_shown("\u4f60\u597d\u4f60\u597d\u4f60\u597d", "\u4f60\u597d\u4f60\n\u597d\u4f60\u597d", 7);
  expect_shown("a  b\n\n c", "a  b\n\n c", 10);
}

}  // namespace
}  // namespace tp::test
