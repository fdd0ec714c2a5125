// Text to ids and back: megabytes per second on one core. The round trip is verified first.
//
//   build/bin/bench_tokenizer --model DIR README.md runtime/*.cc

#include "model/tokenizer/tokenizer.h"

#include "bench/harness.h"
#include "tp/internal/require.h"

#include <fstream>
#include <iterator>

namespace tp {
namespace {

struct Flags {
  std::string model;
  std::vector<std::string> files;
  std::size_t megabytes = 8;
  std::size_t repeats = 5;
};

// Concatenates the files, repeatedly until there is enough text.
std::string read_text(const Flags& flags) {
  std::string once;
  for (const std::string& path : flags.files) {
    std::ifstream file(path, std::ios::binary);
    require<RequestError>(file.good(), "cannot read {}: expected a text; check the path", path);
    once.append(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  require<RequestError>(!once.empty(), "the files are empty; expected some text");
  std::string text;
  while (text.size() < flags.megabytes * 1'000'000) text += once;
  return text;
}

void verify(const Tokenizer& tokenizer, const std::string& text) {
  const std::string back = tokenizer.decode(tokenizer.encode(text, AddSpecial::no), SkipSpecial::no);
  require<Error>(back == text,
                 "encoding and decoding {} bytes returned a different text of {} bytes; expected a "
                 "tokenizer that neither normalizes text nor has unknown characters",
                 text.size(), back.size());
}

// Returns the median over the repeats.
template <class Work>
double megabytes_per_second(const Flags& flags, std::size_t bytes, const Work& work) {
  return static_cast<double>(bytes) / 1e6 / bench::measure_times(flags.repeats, work).median;
}

void measure(const Flags& flags) {
  const Stopwatch watch;
  const Tokenizer tokenizer = Tokenizer::load(flags.model);
  const double load_seconds = watch.seconds();
  const std::string text = read_text(flags);
  verify(tokenizer, text);
  std::vector<TokenId> ids;
  const double encoding =
      megabytes_per_second(flags, text.size(), [&] { ids = tokenizer.encode(text, AddSpecial::no); });
  const double decoding =
      megabytes_per_second(flags, text.size(), [&] { tokenizer.decode(ids, SkipSpecial::no); });
  fmt::print("loaded in {:.2f} s; {:.1f} MB are {} tokens; encode {:.1f} MB/s, decode {:.1f} MB/s\n",
             load_seconds, static_cast<double>(text.size()) / 1e6, ids.size(), encoding, decoding);
}

}  // namespace
}  // namespace tp

int main(int argc, char** argv) {
  CLI::App app("The speed of a tokenizer");
  tp::Flags flags;
  app.add_option("-m,--model", flags.model, "A model's folder, or a tokenizer file")->required();
  app.add_option("FILE", flags.files, "Text files")->required();
  app.add_option("--megabytes", flags.megabytes, "Minimum amount of text")->capture_default_str();
  app.add_option("--repeats", flags.repeats, "Runs, of which the median counts")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  return tp::bench::run_program("bench_tokenizer", app, argc, argv, [&] { tp::measure(flags); });
}
