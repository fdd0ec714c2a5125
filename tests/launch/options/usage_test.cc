// The program's user interface: help, versions, wrong usage, and commands without ranks.

#include "tests/launch/program.h"
#include "tests/launch/text_model.h"

#include <regex>
#include <set>

#include <gtest/gtest.h>

namespace tp::test {
namespace {

const std::vector<std::string> kCommands = {"generate", "download",   "logits",  "perplexity",
                                            "tokenize", "detokenize", "inspect", "bench"};

TEST(Usage, EveryCommandExplainsItselfWithExamples) {
  for (const std::string& command : kCommands) {
    EXPECT_CONTAINS(help_text(), command);
    const std::string& help = help_text(command);
    EXPECT_CONTAINS(help, "Example");
    EXPECT_CONTAINS(help, "--model");
    EXPECT_EQ(help.find("INT in"), std::string::npos) << "a type only a programmer can read";
  }
}

// The commands whose help lists the option.
std::set<std::string> commands_with(const std::string& option) {
  std::set<std::string> commands;
  const std::string overview = help_text();
  const std::regex name("\n  ([a-z-]+)  ");
  const std::size_t begin = overview.find("Subcommands:");
  for (std::sregex_iterator
           match(overview.begin() + static_cast<std::ptrdiff_t>(begin), overview.end(), name),
       none;
       match != none; ++match) {
    const std::string command = (*match)[1];
    if (std::regex_search(help_text(command), std::regex("\n  (-[a-z],)?" + option + "[ \n]")))
      commands.insert(command);
  }
  return commands;
}

TEST(Usage, CommandsListOnlyOptionsThatTheyUse) {
  using Names = std::set<std::string>;
  const Names engines = {"generate",  "chat",   "serve",  "embed",      "rank", "classify",
                         "fill-mask", "logits", "hidden", "perplexity", "bench"};
  for (const char* option : {"--packed-cache", "--max-length", "--cache-tokens", "--verbose"})
    EXPECT_EQ(commands_with(option), engines) << option;
  // Commands that run one request after another, or as many at once as --batch gives, lack this option.
  EXPECT_EQ(commands_with("--max-sequences"),
            Names({"generate", "serve", "embed", "rank", "classify", "fill-mask"}));
  // rank, classify and fill-mask have only encoders, which compute whole texts.
  for (const char* option : {"--attention", "--pipeline", "--two-batch-overlap"}) {
    EXPECT_EQ(commands_with(option),
              Names({"generate", "chat", "serve", "embed", "logits", "hidden", "perplexity", "bench"}))
        << option;
  }
  EXPECT_EQ(commands_with("--unmask-cache"), Names({"generate", "chat", "serve", "bench"}));
  EXPECT_EQ(commands_with("--speculate"), Names({"generate", "chat", "serve", "bench"}));
  EXPECT_EQ(commands_with("--server"), Names({"chat"}));
  expect_one_error(run(kNoMpirun, {"logits", "--max-sequences", "2"}), 2,
                   "there is no option --max-sequences");
}

TEST(Usage, HelpBeginsWithCommonOptionsAndHelpAllHasTheRest) {
  const std::string help = run(kNoMpirun, {"generate", "--help"}).out;
  EXPECT_CONTAINS(help, "\nCommon options:\n  -m,--model DIR");
  EXPECT_LT(help.find("--max-tokens"), help.find("--same-bits"));
  EXPECT_CONTAINS(help, " more options: tp-infer generate --help-all\n");
  for (const char* rare : {"--two-batch-overlap", "--kv-slices", "--length-penalty"}) {
    EXPECT_EQ(help.find(rare), std::string::npos) << rare;
    EXPECT_CONTAINS(help_text("generate"), rare);
  }
  EXPECT_LT(lines_of(help).size(), 100U);
  EXPECT_EQ(run(kNoMpirun, {"tokenize", "--help"}).out.find("more options"), std::string::npos);
}

TEST(Usage, HelpFitsTheTerminal) {
  for (const std::string command : {"generate", "serve", "plan", "chat"}) {
    const Finished finished = run(kNoMpirun, {command, "--help"}, {.on_terminal = true});
    std::size_t longest = 0;
    for (std::string line : lines_of(finished.out)) {
      if (line.ends_with('\r')) line.pop_back();
      const bool is_command = line.starts_with("  ") && !line.starts_with("   ") && !line.starts_with("  -");
      if (is_command) continue;  // commands stay in one line
      longest = std::max(longest, line.size());
    }
    EXPECT_LE(longest, 80U) << finished.out;
    EXPECT_GT(longest, 60U) << finished.out;
  }
}

TEST(Usage, ErrorsNameFlagsThatDifferFromTheirField) {
  expect_one_error(run(kNoMpirun, {"serve", "--step-ms", "-1"}), 1, "--step-ms must be a number");
}

TEST(Usage, DefaultsAreShown) {
  EXPECT_CONTAINS(help_text("bench"), "--generate N=64");
  EXPECT_CONTAINS(help_text("bench"), "--prefill-chunk N=512");
}

TEST(Usage, TheVersionComesWithTheCommit) {
  const std::string text = run(kNoMpirun, {"--version"}).out;
  EXPECT_TRUE(std::regex_match(
      text,
      std::regex(
          "tp-infer [0-9]+\\.[0-9]+\\.[0-9]+(-dev)? \\(commit (unknown|[0-9a-f]{9}(\\+[0-9a-f]{8})?)\\)\n")))
      << text;
  Process git({"git", "-C", TP_TEST_DATA, "rev-parse", "HEAD"});
  if (git.finish().status != 0) GTEST_SKIP() << "this is no checkout of the repository";
  EXPECT_EQ(text.find("unknown"), std::string::npos) << text;
}

TEST(Usage, MpirunDoesNotMultiplyWhatIsPrinted) {
  EXPECT_EQ(count_of(run(3, {"--version"}).out, "tp-infer"), 1U);
  EXPECT_EQ(count_of(run(3, {"--help"}).out, "Usage:"), 1U);
}

TEST(Usage, WrongOptionsAreOneLineAndStatusTwo) {
  const std::vector<std::pair<Arguments, std::string>> cases = {
      {{"frobnicate"}, "tp-infer: there is no subcommand frobnicate; expected one of generate, chat, "},
      {{"generate", "--bogus"}, "there is no option --bogus (see tp-infer generate --help)"},
      {{"generate", "a story"},
       "expected an option, found \"a story\"; give a text with --prompt \"a story\""},
      {{"inspect", "/tmp"}, "expected an option, found the path /tmp; give a model with --model /tmp"},
      {{"inspect", "--json", "--model"}, "expected --model DIR, found no value after it; add one"},
      {{"inspect", "--model", "--ranks", "2"}, "expected --model DIR, found --ranks after it; add a value"},
      {{"generate", "--model", "x"}, "nothing to continue; give --prompt TEXT"},
      {{"generate", "--prompt", "x", "--batch", "y"}, "a --batch has all prompts in its lines"},
      {{"generate", "--prompt-file", "-", "--tokens", "-"}, "cannot both be standard input"},
      {{"generate", "--prompt", "x", "--logprobs", "2"}, "give --json too"},
      {{"generate", "--prompt", "x", "--top-p", "2"}, "--top-p is 2, expected a number in (0, 1]"},
      {{"generate", "--prompt", "x", "--n", "0"}, "--n: expected a whole number from 1 to 4096, found 0"},
      {{"generate", "--prompt", "x", "--stop", ""}, "cannot stop at an empty text"},
      {{"generate", "--prompt", "x", "--weights", "f8"},
       "--weights: expected one of auto, f32, f16, bf16, int8, int4, found f8"},
      {{"generate", "--prompt", "x", "--weights", "q4_k"},
       "--weights: expected one of auto, f32, f16, bf16, int8, int4, to which weights can be converted, "
       "found "
       "q4_k; files that store q4_k weights "
       "keep it with auto"},
      {{"generate", "--prompt", "x", "--max-length", "0"},
       "expected a whole number from 1 to 1099511627776, found 0"},
      {{"generate", "--prompt", "x", "--speculate", "ngram:16"},
       "--speculate: expected off, ngram, draft:DIR, mtp, auto or auto:DIR, optionally followed by :N or "
       ":N:always with N from 1 to 15, found ngram:16; change it, or leave it out"},
      {{"serve", "--draft-history", "-1"}, "--draft-history: expected a whole number from 0 to 1073741824"},
      {{"generate", "--prompt", "x", "--speculate", "mtp:16"}, "found mtp:16"},
      {{"bench", "--synthetic", "x", "--acceptance-trace", "x", "--speculate", "mtp"},
       "expected draft tokens that don't need that model's hidden states, found --speculate mtp; use ngram "
       "or draft:DIR"},
      {{"generate", "--prompt", "x", "--speculate", "mtp:folder"}, "found mtp:folder"},
      {{"generate", "--prompt", "x", "--speculate", "ngram:"}, "expected off, ngram, draft:DIR"},
      {{"generate", "--prompt", "x", "--speculate", "ngram:4:ever"}, "expected off, ngram, draft:DIR"},
      {{"generate", "--prompt", "x", "--speculate", "draft:folder:0"}, "found draft:folder:0"},
      {{"generate", "--prompt", "x", "--speculate", "draft:folder:always"}, "found draft:folder:always"},
      {{"generate", "--prompt", "x", "--speculate", "draft:4"}, "found draft:4"},
      {{"generate", "--prompt", "x", "--speculate", "mtp", "--draft-model", "x"},
       "--draft-model: expected --speculate auto with it, or no --speculate, found another kind of drafts"},
      {{"generate", "--prompt", "x", "--speculate", "draft:y", "--draft-model", "x"},
       "found another draft model; leave one of the two out"},
      {{"serve", "--speculate", "draft"},
       "expected off, ngram, draft:DIR, mtp, auto or auto:DIR, optionally followed"},
      {{"logits", "--output", "x"}, "expected --tokens FILE, found none; add it"},
      {{"perplexity", "--file", "x", "--window", "1"},
       "expected a whole number from 2 to 1099511627776, found 1"},
      {{"perplexity"}, "expected either --file FILE or --tokens FILE, found neither"},
      {{"inspect", "--ranks", "0"}, "expected a whole number from 1 to 4096, found 0"},
      {{"bench", "--batch", "1,a"}, "expected a whole number from 1 to 4096, found a"},
      {{"bench", "--synthetic", "a", "--model", "b"}, "--model names a checkpoint; leave out one of them"},
      {{"tokenize", "--model", "a", "--jsonl", "text"}, "but a TEXT is given; leave out one of them"},
      {{"kv-store", "x", "--prune-days", "-1"}, "expected a number above 0, up to 36500, found -1"},
      {{"serve", "--kv-store-min", "8"}, "expected --kv-store DIR with --kv-store-min, found none; add it"},
      {{"serve", "--kv-store-size", "5"}, "expected --kv-store DIR with --kv-store-size, found none; add it"},
      {{"generate", "--prompt", "x", "--greedy", "--temperature", "0.7"},
       "expected --greedy or a --temperature above 0, found both; leave one of the two out"},
      {{"serve", "--cors-origins", "chat.example.com"},
       "--cors-origins: expected SCHEME://HOST or SCHEME://HOST:PORT, as in https://chat.example.com, or *, "
       "found chat.example.com"},
      {{"serve", "--cors-origins", "*,https://chat.example.com/page"}, "found https://chat.example.com/page"},
      {{"serve", "--cors-origins", "https://*.example.com"}, "found https://*.example.com"},
      {{"serve", "--allowed-hosts", "llm.example.com,http://llm.example.com"},
       "--allowed-hosts: expected a host's name, as in llm.example.com, or *, found http://llm.example.com"},
      {{"serve", "--allowed-hosts", "llm.example.com/v1"}, "found llm.example.com/v1"},
      {{"serve", "--kv-store-size", "-1"},
       "expected a number of gigabytes above 0, up to 1000000000, found -1"},
  };
  for (const auto& [arguments, message] : cases) expect_one_error(run(kNoMpirun, arguments), 2, message);
}

// Any folder has subfolders.
TEST(Usage, KvStoreSaysIfAFolderHasNoStoredPrompts) {
  const TemporaryDirectory folder;
  const std::string path = folder.path();
  EXPECT_EQ(run(kNoMpirun, {"kv-store", path}).err, "");
  std::filesystem::create_directories(folder.path() / "music");
  const Finished listed = run(kNoMpirun, {"kv-store", path});
  EXPECT_EQ(listed.status, 0);
  EXPECT_EQ(listed.out, "");
  EXPECT_CONTAINS(listed.err, "expected a folder of --kv-store, found other files in " + path);
  const Finished pruned = run(kNoMpirun, {"kv-store", path, "--prune-model", "qwen"});
  EXPECT_EQ(pruned.status, 0);
  EXPECT_CONTAINS(pruned.err, "--prune-model removes nothing: expected the name of an entry in " + path);
}

TEST(Usage, AnEmptyNameIsAnError) {
  const std::vector<Arguments> commands = {
      {"generate", "--model", ""},    {"generate", "--batch", ""},
      {"generate", "--output="},      {"generate", "--trace="},
      {"generate", "--prompt-file="}, {"generate", "--tokens", ""},
      {"generate", "--template", ""}, {"chat", "-m", ""},
      {"chat", "--load", ""},         {"render-chat", "--messages", ""},
      {"logits", "--output", ""},     {"perplexity", "--file", ""},
      {"inspect", "--model", ""},     {"tokenize", "--model="},
      {"detokenize", "--model", ""},  {"bench", "--synthetic", "", "-v"}};
  for (const Arguments& arguments : commands)
    expect_one_error(run(kNoMpirun, arguments), 2,
                     ", found an empty value; is a variable unset? (see tp-infer");
}

TEST(Usage, AVariableOfTheEnvironmentThatMakesNoSenseIsAnError) {
  const Arguments arguments = {"generate", "--prompt", "x", "--max-tokens", "1"};
  for (const std::string patience : {"abc", "nan", "inf", "-1", "0", "1x"}) {
    expect_one_error(
        run(kNoMpirun, arguments, {.variables = {"TP_PATIENCE=" + patience}}), 1,
        "TP_PATIENCE must be a number of seconds from 0 to 1000000, and not 0; found \"" + patience);
  }
  for (const Arguments& command : {Arguments{TP_INFER_PROGRAM, "generate", "--prompt", "x"},
                                   Arguments{TP_INFER_PROGRAM, "bench", "--prompt", "4"}}) {
    expect_one_error(Process(command, {.variables = {"OMP_NUM_THREADS=999999"}}).finish(), 1,
                     "OMP_NUM_THREADS: expected at most 1024 threads of a rank, found 999999");
  }
}

TEST(Usage, WrongOptionsAreOneLineAndStatusTwoUnderMpirun) {
  for (int repeat = 0; repeat < 3;
       ++repeat) {  // repeated, because another rank might be faster than the reporting rank
    expect_one_error(run(4, {"generate", "--bogus"}), 2, "--bogus (see tp-infer generate --help)");
  }
}

TEST(Usage, SuggestsTheNameForATypo) {
  const std::vector<std::pair<Arguments, std::string>> cases = {
      {{"genrate", "--prompt", "x"}, "tp-infer: there is no subcommand genrate; did you mean generate? (see"},
      {{"chta", "--help"}, "there is no subcommand chta; did you mean chat?"},
      {{"help", "tokenise"}, "there is no subcommand tokenise; did you mean tokenize?"},
      {{"generate", "--promt", "Hello"}, "there is no option --promt; did you mean --prompt? (see tp-infer "},
      {{"generate", "--modle=x"}, "there is no option --modle; did you mean --model?"},
      {{"generate", "-prompt", "Hello"}, "there is no option -prompt; did you mean --prompt?"},
      {{"logits", "--token", "x"}, "there is no option --token; did you mean --tokens?"},
      {{"generate", "--prompt", "x", "--weights", "bf61"}, "found bf61; did you mean bf16?"},
  };
  for (const auto& [arguments, message] : cases) expect_one_error(run(kNoMpirun, arguments), 2, message);
}

TEST(Usage, AnOptionOfAnotherCommandIsSaidToBeOne) {
  const std::vector<std::pair<Arguments, std::string>> cases = {
      {{"chat", "--n", "2"}, "there is no option --n here; it belongs to generate"},
      {{"chat", "--logprobs", "2"}, "there is no option --logprobs here; it belongs to generate"},
      {{"--prompt", "x"},
       "there is no option --prompt here; it belongs to generate, embed, classify, fill-mask, plan, bench"},
  };
  for (const auto& [arguments, message] : cases) expect_one_error(run(kNoMpirun, arguments), 2, message);
  const std::string help = help_text("chat");
  EXPECT_CONTAINS(help, "--temperature");
  EXPECT_EQ(help.find("--n "), std::string::npos);
  EXPECT_EQ(help.find("--logprobs"), std::string::npos);
}

TEST(Usage, AcceptsHelpAndVersionAsWords) {
  const auto same = [](const Arguments& words, const Arguments& options) {
    const Finished finished = Process(command_line(kNoMpirun, words)).finish();
    expect_success(finished);
    EXPECT_EQ(finished.out, run(kNoMpirun, options).out);
  };
  same({"help"}, {"--help"});
  same({"help", "tokenize"}, {"tokenize", "--help"});
  same({"version"}, {"--version"});
}

TEST(Usage, HelpHasNoWordsOfTheParser) {
  for (const std::string& command : kCommands) {
    const std::string help = run(kNoMpirun, {"help", command}).out;
    for (const char* word : {"Excludes:", "Needs:", "of the following options", " in {"})
      EXPECT_EQ(help.find(word), std::string::npos) << command << ": " << word;
  }
}

TEST(Usage, NumbersMustBeValidAndInRange) {
  const std::vector<std::pair<std::string, std::vector<std::string>>> cases = {
      {"--seed", {"-1", "18446744073709551616", "1e23", "1.5", "", "seven", "7 "}},
      {"--temperature", {"", "warm", "1e39", "nan", "inf", "0.5x"}},
      {"--max-tokens", {"", "0", "2147483648", "1e3"}},
      {"--top-k", {"", "-1", "2147483648"}},
      {"--repetition-penalty", {""}},
      {"--threads", {"", "0"}},
  };
  for (const auto& [option, values] : cases) {
    for (const std::string& value : values) {
      SCOPED_TRACE(option + "=" + value);
      const Finished finished = run(kNoMpirun, {"generate", "--prompt", "x", option + "=" + value});
      expect_one_error(finished, 2, option + ": expected a ");
      EXPECT_CONTAINS(finished.err, value.empty() ? "found an empty text" : "found " + value);
    }
  }
}

TEST(Usage, TheLargestSeedIsOne) {
  const TextModel model;
  const Finished finished = run(kNoMpirun, {"generate", "--model", model.path(), "--prompt", "x", "--json",
                                            "--max-tokens", "1", "--seed", "18446744073709551615"});
  expect_success(finished);
  EXPECT_EQ(json_lines(finished.out).at(0).at("sampling").at("seed"), 18446744073709551615U);
}

TEST(Usage, AnOptionGivenAgainReplacesTheFirst) {
  const TextModel model;
  const Finished finished =
      run(kNoMpirun, {"generate", "--model", model.path(), "--prompt", "x", "--ignore-eos", "--max-tokens",
                      "9", "--json", "--max-tokens", "2"});
  expect_success(finished);
  EXPECT_EQ(json_lines(finished.out).at(0).at("token_ids").size(), 2U);
}

TEST(Usage, WithoutArgumentsTheDemoModelTellsAStory) {
  const std::filesystem::path program = TP_INFER_PROGRAM;
  if (!std::filesystem::exists(program.parent_path().parent_path() / "share/tp-infer/demo/model.safetensors"))
    GTEST_SKIP() << "the demo model is not there";
  const Finished finished = run(2, {});
  EXPECT_EQ(finished.status, 0);
  EXPECT_GT(finished.out.size(), 100U);
  EXPECT_EQ(count_of(finished.err, "What to try next"), 1U) << finished.err;
}

TEST(Usage, CommandsWithoutRanksPrintOnceUnderMpirun) {
  const TextModel model;
  for (const Arguments& arguments : std::vector<Arguments>{{"inspect", "--model", model.path()},
                                                           {"tokenize", "--model", model.path(), "Hello"}}) {
    const Finished finished = run(3, arguments);
    expect_success(finished);
    EXPECT_EQ(finished.out, run(kNoMpirun, arguments).out);
  }
  expect_one_error(run(3, {"inspect", "--model", "/proc/nonexistent"}), 1,
                   "cannot open /proc/nonexistent: no such file or folder");
}

// Checks a terminal's own standard output, and mpirun's. A rank's standard output is always a terminal that
// mpirun created.
TEST(Usage, ControlCharactersOfModelsReachPipesButNotTerminals) {
  const TemporaryDirectory directory;
  const std::string text = "\x1b]0;title\x07\tcaf\u00e9 \u009b2J\u200f.";
  const std::string chat_template = directory.write("chat.jinja", "{{ messages[0].content }}");
  const std::string messages = directory.write(
      "messages.json", nlohmann::json{{"messages", {{{"role", "user"}, {"content", text}}}}}.dump());
  for (const std::size_t ranks : {kNoMpirun, std::size_t{1}}) {
    const Arguments render = {"render-chat", "--template", chat_template, "--messages", messages};
    EXPECT_EQ(run(ranks, render).out, text);
    const Finished shown = run(ranks, render, {.keep_input_open = true, .on_terminal = true});
    EXPECT_CONTAINS(shown.out, "?]0;title?");
    EXPECT_CONTAINS(shown.out, "caf\u00e9 ?2J\u200f.");
    EXPECT_EQ(shown.out.find('\x1b'), std::string::npos);
  }
}

TEST(Usage, ControlCharactersOfFilesNeverReachTheTerminal) {
  const std::string steering = "\x1b]0;title\x07\u009b2J\n";
  const CheckpointCopies copies;
  const std::filesystem::path model = copies.copy("llama-gqa", "model");
  change_config(model, {{"architectures", {steering}}});
  for (const std::size_t ranks : {kNoMpirun, std::size_t{2}}) {
    for (const Arguments& arguments :
         {Arguments{"inspect", "--model", model},
          Arguments{"logits", "--model", model, "--tokens", "-", "--output", "x.npy"}}) {
      expect_one_error(run(ranks, arguments, {.input = "[1]"}), 1,
                       "models of the family ?]0;title??2J? are not supported");
    }
  }
  const TemporaryDirectory directory;
  const std::string chat_template =
      directory.write("chat.jinja", "{{ raise_exception(" + nlohmann::json(steering).dump() + ") }}");
  const Finished finished = run(kNoMpirun, {"chat", "--template", chat_template}, {.input = "Hello\n"});
  EXPECT_CONTAINS(finished.err, "?]0;title??2J?");
  EXPECT_EQ(finished.err.find('\x1b'), std::string::npos) << finished.err;
}

TEST(Tokenize, IsUndoneByDetokenize) {
  const TextModel model;
  const std::vector<std::string> texts = {"Hello world", "two\nlines \"quoted\"", "",
                                          "caf\u00e9 \u4f60\u597d", "  spaces  "};
  std::string lines;
  for (const std::string& text : texts) lines += nlohmann::json(text).dump() + "\n";
  const Finished ids = run(kNoMpirun, {"tokenize", "--model", model.path(), "--jsonl"}, {.input = lines});
  expect_success(ids);
  EXPECT_EQ(json_lines(ids.out).size(), texts.size());
  const Finished back = run(kNoMpirun, {"detokenize", "--model", model.path(), "--jsonl", "--skip-special"},
                            {.input = ids.out});
  expect_success(back);
  EXPECT_EQ(json_lines(back.out), json_lines(lines));
}

TEST(Tokenize, ABadLineIsNamed) {
  const TextModel model;
  const auto detokenize = [&](const std::string& input) {
    return run(kNoMpirun, {"detokenize", "--model", model.path()}, {.input = input});
  };
  for (const char* bad : {"[1, 99999]", "[1, -1]", "[1.5]", "{\"ids\": 1}", "[1"}) {
    const Finished finished = detokenize("[2, 300]\n" + std::string(bad) + "\n");
    EXPECT_EQ(finished.status, 1) << bad;
    EXPECT_TRUE(finished.err.starts_with("tp-infer: input line 2: ")) << finished.err;
  }
}

}  // namespace
}  // namespace tp::test
