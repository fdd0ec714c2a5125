#pragma once

#include "model/tokenizer/steps/pre_tokens.h"
#include "model/tokenizer/text/regex.h"

#include <cstdint>

namespace tp {

// The treatment of a split's delimiters. Examples for "the-final--countdown" and '-':
enum class SplitBehavior : std::uint8_t {
  removed,               // the final countdown
  isolated,              // the - final - - countdown
  merged_with_previous,  // the- final- - countdown
  merged_with_next,      // the -final - -countdown
  contiguous             // the - final -- countdown
};

// Cuts each piece at the matches of a pattern.
class Split {
 public:
  // `invert`: the text between matches is the delimiter.
  Split(Regex pattern, SplitBehavior behavior, bool invert)
      : pattern_(std::move(pattern)), behavior_(behavior), invert_(invert) {}

  void operator()(PreTokens& tokens) const;

 private:
  Regex pattern_;
  SplitBehavior behavior_;
  bool invert_;
};

}  // namespace tp
