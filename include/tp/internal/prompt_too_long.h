// Not installed, like require.h.
#pragma once

#include "tp/error.h"

#include <cstddef>
#include <string>
#include <utility>

#include <fmt/format.h>

namespace tp {

// A prompt that is too long. Clients of a server read the two numbers, to know how much to cut.
class PromptTooLongError : public TooLongError {
 public:
  PromptTooLongError(const std::string& message, std::size_t tokens, std::size_t maximum)
      : TooLongError(message), tokens_(tokens), maximum_(maximum) {}
  std::size_t tokens() const noexcept { return tokens_; }
  std::size_t maximum() const noexcept { return maximum_; }

 private:
  std::size_t tokens_;
  std::size_t maximum_;
};

// Throws PromptTooLongError with the formatted text if there are more tokens than the maximum.
template <class... Args>
void require_room(std::size_t tokens, std::size_t maximum, fmt::format_string<Args...> format,
                  Args&&... args) {
  if (tokens > maximum)
    throw PromptTooLongError(fmt::format(format, std::forward<Args>(args)...), tokens, maximum);
}

}  // namespace tp
