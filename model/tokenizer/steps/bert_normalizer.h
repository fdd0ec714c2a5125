#pragma once

#include <string>

namespace tp {

// BERT's normalizer: removes control characters and converts white space to spaces (clean_text), puts spaces
// around Chinese characters, removes nonspacing marks, and converts letters to lower case.
class BertNormalizer {
 public:
  struct Options {
    bool clean_text = true;
    bool spaces_around_chinese = true;
    bool strip_accents = true;
    bool lowercase = true;
  };

  explicit BertNormalizer(const Options& options) : options_(options) {}

  // `text` must be well-formed UTF-8, and the result is well-formed, too.
  std::string operator()(std::string text) const;

 private:
  std::string with_clean_characters(const std::string& text) const;

  Options options_;
};

}  // namespace tp
