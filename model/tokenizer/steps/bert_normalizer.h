#pragma once

#include <optional>
#include <string>

namespace tp {

// BERT's normalizer: control characters are removed and white space becomes spaces (clean_text), spaces are
// put around Chinese characters, nonspacing marks are removed, and letters become lower case.
class BertNormalizer {
 public:
  struct Options {
    bool clean_text = true;
    bool spaces_around_chinese = true;
    bool strip_accents = true;
    bool lowercase = true;
  };

  explicit BertNormalizer(const Options& options) : options_(options) {}

  // `text` is well-formed UTF-8, and so is the result.
  std::string operator()(std::string text) const;

 private:
  std::string with_clean_characters(const std::string& text) const;

  Options options_;
};

}  // namespace tp
