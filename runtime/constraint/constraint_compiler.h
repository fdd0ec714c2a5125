// Compiles the constraints of requests.
#pragma once

#include "runtime/constraint/byte_vocabulary.h"
#include "runtime/constraint/compiled_constraint.h"
#include "tp/constraint.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tp::constraint {

// The grammar of a constraint, inside the grammar of Request::constraint_frame. Without a vocabulary,
// control tokens are ordinary text. `grammar`: an empty grammar, whose budget limits the work. Throws
// RequestError.
ByteGrammar grammar_of(const Constraint& constraint, std::string_view frame = {},
                       const ByteVocabulary* vocabulary = nullptr, ByteGrammar grammar = {});

// Limits the memory of the constraints that are kept for later requests.
inline constexpr std::size_t kMaxKeptBytes = std::size_t{256} << 20;

// All members are thread-safe.
class ConstraintCompiler {
 public:
  // `ends`: tokens that end every text. `tokenizer` must outlive this object.
  ConstraintCompiler(const Tokenizer& tokenizer, std::size_t vocab_size, std::vector<TokenId> ends,
                     std::size_t max_kept_bytes = kMaxKeptBytes)
      : tokenizer_(&tokenizer),
        vocab_size_(vocab_size),
        ends_(std::move(ends)),
        max_kept_bytes_(max_kept_bytes) {}

  // Returns a kept result if the constraint was used recently. Throws RequestError.
  std::shared_ptr<CompiledConstraint> compile(const Constraint& constraint, std::string_view frame = {});

  // Creates the vocabulary in the first call, which takes a while.
  std::shared_ptr<const ByteVocabulary> vocabulary();

 private:
  struct Entry {
    std::shared_ptr<CompiledConstraint> compiled;
    std::uint64_t last_use = 0;
    std::size_t bytes = 0;  // when they were last counted
  };

  std::shared_ptr<CompiledConstraint> find(const std::string& key);
  void keep(const std::string& key, std::shared_ptr<CompiledConstraint> compiled);
  // Forgets the constraints that were not used for the longest time. `mutex_` must be locked.
  void forget_oldest();

  const Tokenizer* tokenizer_;
  std::size_t vocab_size_;
  std::vector<TokenId> ends_;
  std::size_t max_kept_bytes_;

  std::once_flag vocabulary_made_;
  std::shared_ptr<const ByteVocabulary> vocabulary_;

  std::mutex mutex_;  // guards the members below
  std::map<std::string, Entry> entries_;
  std::uint64_t uses_ = 0;
};

}  // namespace tp::constraint
