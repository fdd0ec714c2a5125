// The values that a chat template works with, and the memory that holds them while it renders.
#pragma once

#include "tp/marked_text.h"

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace tp::jinja {

// What goes wrong while a template renders. Whoever knows the place in the template adds it.
class EvaluationError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct List;
struct Dict;
struct Namespace;
struct Callable;
struct LoopState;

// A name or member that does not exist: prints as nothing, but nothing can be asked of it.
struct Undefined {
  std::shared_ptr<const std::string> reason;  // "'x' is undefined"
};

struct None {};

// A value as Python has it. Lists and the like live on the Heap of one rendering and are referred to; a copy
// of a Value is cheap.
class Value {
 public:
  using Text = std::shared_ptr<const MarkedText>;  // well-formed UTF-8, of which runs are whole characters
  using Variant = std::variant<Undefined, None, bool, std::int64_t, double, Text, List*, Dict*, Namespace*,
                               Callable*, LoopState*>;

  Value() : Value(None{}) {}
  // As in Jinja, any of these is a value. NOLINTBEGIN(google-explicit-constructor)
  Value(Variant value) : value_(std::move(value)) {}
  Value(Undefined undefined) : value_(std::move(undefined)) {}
  Value(None none) : value_(none) {}
  Value(bool boolean) : value_(boolean) {}
  Value(std::int64_t integer) : value_(integer) {}
  Value(double number) : value_(number) {}
  Value(std::string text) : Value(MarkedText(std::move(text))) {}
  Value(MarkedText text) : value_(std::make_shared<const MarkedText>(std::move(text))) {}
  Value(const char* text) : Value(std::string(text)) {}
  Value(List* list) : value_(list) {}
  Value(Dict* dict) : value_(dict) {}
  Value(Namespace* name_space) : value_(name_space) {}
  Value(Callable* callable) : value_(callable) {}
  Value(LoopState* loop) : value_(loop) {}
  // NOLINTEND(google-explicit-constructor)

  static Value undefined(std::string reason) {
    return Undefined{std::make_shared<const std::string>(std::move(reason))};
  }
  static Value size(std::size_t size) { return static_cast<std::int64_t>(size); }

  template <class T>
  bool is() const {
    return std::holds_alternative<T>(value_);
  }
  // Nothing if it is of another type.
  template <class T>
  const T* get_if() const {
    return std::get_if<T>(&value_);
  }
  bool is_text() const { return is<Text>(); }
  bool is_undefined() const { return is<Undefined>(); }
  // Only of a text.
  const std::string& text() const { return marked_text().text(); }
  const MarkedText& marked_text() const { return **std::get_if<Text>(&value_); }
  List* list() const { return pointer<List>(); }
  Dict* dict() const { return pointer<Dict>(); }

  // The pointer, or null if it is of another type.
  template <class T>
  T* pointer() const {
    T* const* found = std::get_if<T*>(&value_);
    return found == nullptr ? nullptr : *found;
  }

  const Variant& variant() const { return value_; }

  // "str", "list", ...: Python's name of its type, for errors.
  std::string_view type_name() const;

 private:
  Variant value_;
};

struct List {
  enum class Kind : std::uint8_t {
    list,
    tuple,
    range,     // of numbers: cannot be printed or added to
    generator  // what filters such as map give: true though empty, gone once it was gone through
  };

  std::vector<Value> items;
  Kind kind = Kind::list;
};

// In the order of insertion. Keys are texts, numbers, booleans or none.
struct Dict {
  std::vector<std::pair<Value, Value>> members;
};

// The one kind of value whose members a template can set.
struct Namespace {
  std::map<std::string, Value, std::less<>> members;
};

// The arguments of one call. Whoever takes one marks it; what is left over is an error of the caller's.
class Arguments {
 public:
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> keywords;

  // The argument at `index` or called `name`; null if it is not given.
  const Value* find(std::size_t index, std::string_view name);
  // Throws EvaluationError if it is not given.
  const Value& at(std::size_t index, std::string_view name);
  // All positional arguments from `index` on.
  std::vector<Value> rest(std::size_t index);
  // Throws EvaluationError if there are arguments that nobody took.
  void check_all_taken() const;

 private:
  std::size_t taken_positional_ = 0;
  std::vector<std::string> taken_keywords_;
};

struct Callable {
  std::function<Value(Arguments&)> call;
};

// What a loop's body knows as `loop`.
struct LoopState {
  std::vector<Value> items;
  std::size_t index = 0;  // of the current one
  std::size_t depth = 1;  // of recursive calls
  std::vector<Value> last_changed{};
  bool has_changed = false;                    // `changed` was asked before
  std::function<Value(Arguments&)> recurse{};  // empty unless the loop is recursive
};

// What bounds the work and the memory of one rendering, whatever the template does: throws EvaluationError.
class Budget {
 public:
  static constexpr std::size_t kStep = 32;      // evaluating one node of the template
  static constexpr std::size_t kElement = 256;  // an element of a list
  static constexpr std::size_t kLimit = std::size_t{1} << 29;
  static constexpr std::size_t kDepth = 1000;  // of nodes within nodes and values within values

  // Spends units; a byte that is read or written is one.
  void spend(std::size_t units) {
    if (units > left_) exhausted();
    left_ -= units;
  }

  // One level of recursion deeper, for as long as it lives.
  class Level {
   public:
    explicit Level(Budget& budget) : budget_(budget) {
      if (budget_.depth_ == kDepth) too_deep();
      ++budget_.depth_;
    }
    ~Level() { --budget_.depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    Budget& budget_;
  };

 private:
  [[noreturn]] static void exhausted();
  [[noreturn]] static void too_deep();

  std::size_t left_ = kLimit;
  std::size_t depth_ = 0;
};

// Owns everything that values refer to, until the rendering ends: values may refer to one another in circles.
class Heap {
 public:
  explicit Heap(Budget& budget) : budget_(budget) {}

  List* make_list(std::vector<Value> items, List::Kind kind = List::Kind::list);
  Dict* make_dict(std::vector<std::pair<Value, Value>> members);
  Namespace* make_namespace();
  Callable* make_callable(std::function<Value(Arguments&)> call);
  LoopState* make_loop(std::vector<Value> items);

  Budget& budget() { return budget_; }

 private:
  Budget& budget_;
  std::deque<List> lists_;
  std::deque<Dict> dicts_;
  std::deque<Namespace> namespaces_;
  std::deque<Callable> callables_;
  std::deque<LoopState> loops_;
};

// Its truth value.
bool is_true(const Value& value);

// As ==, or as < of two numbers, texts or lists: throws EvaluationError for values that have no order.
bool equal(const Value& a, const Value& b, Budget& budget);
bool less(const Value& a, const Value& b, Budget& budget);

// The member of a dict; null if there is none.
const Value* find_member(const Dict& dict, const Value& key, Budget& budget);
const Value* find_text_member(const Dict& dict, std::string_view key, Budget& budget);

// The elements over which `for` goes: of a list or generator, the keys of a dict, the characters of a text,
// none of an undefined value. Throws EvaluationError for others.
std::vector<Value> elements_of(const Value& value, Budget& budget);

// The number of elements. Throws EvaluationError.
std::size_t length_of(const Value& value, Budget& budget);

// A whole number (a boolean counts as one). Throws EvaluationError: "NAME must be a whole number".
std::int64_t integer_of(const Value& value, std::string_view name);
// A text. Throws EvaluationError.
const std::string& text_of(const Value& value, std::string_view name);
const MarkedText& marked_text_of(const Value& value, std::string_view name);

}  // namespace tp::jinja
