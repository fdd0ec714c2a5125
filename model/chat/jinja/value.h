// The values of a chat template, and their memory during a rendering.
#pragma once

#include "tp/marked_text.h"

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace tp::jinja {

// An error during a rendering. Code that knows the position in the template adds it.
class EvaluationError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct List;
struct Dict;
struct Namespace;
struct Callable;
struct LoopState;

// A name or member that does not exist. It prints as nothing, and has no members.
struct Undefined {
  std::shared_ptr<const std::string> reason;  // "'x' is undefined"
};

struct None {};

// A Python value. Lists and other containers live on the Heap of one rendering, and values refer to them.
// Copies of a Value are cheap.
class Value {
 public:
  using Text = std::shared_ptr<const MarkedText>;  // well-formed UTF-8, whose runs are whole characters
  using Variant = std::variant<Undefined, None, bool, std::int64_t, double, Text, List*, Dict*, Namespace*,
                               Callable*, LoopState*>;

  Value() : Value(None{}) {}
  // As in Jinja, all of these types are values. NOLINTBEGIN(google-explicit-constructor)
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
  // Null if the value has a different type.
  template <class T>
  const T* get_if() const {
    return std::get_if<T>(&value_);
  }
  bool is_text() const { return is<Text>(); }
  bool is_undefined() const { return is<Undefined>(); }
  // Texts only.
  const std::string& text() const { return marked_text().text(); }
  const MarkedText& marked_text() const { return **std::get_if<Text>(&value_); }
  List* list() const { return pointer<List>(); }
  Dict* dict() const { return pointer<Dict>(); }

  // The pointer; null if the value has a different type.
  template <class T>
  T* pointer() const {
    T* const* found = std::get_if<T*>(&value_);
    return found == nullptr ? nullptr : *found;
  }

  const Variant& variant() const { return value_; }

  // Python's name of the type ("str", "list", ...), for errors.
  std::string_view type_name() const;

 private:
  Variant value_;
};

struct List {
  enum class Kind : std::uint8_t {
    list,
    tuple,
    range,     // numbers: cannot be printed or added to
    generator  // result of filters such as map: always true, and consumed by one iteration
  };

  std::vector<Value> items;
  Kind kind = Kind::list;
};

// Members are in the order of insertion. Keys are texts, numbers, booleans or none.
struct Dict {
  std::vector<std::pair<Value, Value>> members;
};

// The only type with members that a template can set.
struct Namespace {
  std::map<std::string, Value, std::less<>> members;
};

// The arguments of a call. Each access marks an argument as taken; arguments that remain are the caller's
// error.
class Arguments {
 public:
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> keywords;

  // The argument at `index` or with `name`; null if it is absent.
  const Value* find(std::size_t index, std::string_view name);
  // Throws EvaluationError if the argument is absent.
  const Value& at(std::size_t index, std::string_view name);
  // Like find, but also null if the value is none.
  const Value* find_given(std::size_t index, std::string_view name);
  // The truth of an argument; false if it is absent.
  bool flag(std::size_t index, std::string_view name);
  // Throws EvaluationError if the argument is not a whole number.
  std::int64_t integer_or(std::size_t index, std::string_view name, std::int64_t otherwise);
  // Returns all positional arguments from `index` on.
  std::vector<Value> rest(std::size_t index);
  // Throws EvaluationError if arguments remain that were not taken.
  void check_all_taken() const;

 private:
  std::size_t taken_positional_ = 0;
  std::vector<std::string> taken_keywords_;
};

struct Callable {
  std::function<Value(Arguments&)> call;
};

// The variable `loop` in a loop's body.
struct LoopState {
  std::vector<Value> items;
  std::size_t index = 0;  // index of the current element
  std::size_t depth = 1;  // depth of recursive calls
  std::vector<Value> last_changed{};
  bool has_changed = false;                    // `changed` was called before
  std::function<Value(Arguments&)> recurse{};  // empty unless the loop is recursive
};

// Limits the work and the memory of one rendering. Throws EvaluationError when the budget is exhausted.
class Budget {
 public:
  static constexpr std::size_t kStep = 32;       // evaluating one node of the template
  static constexpr std::size_t kElement = 256;   // element of a list
  static constexpr std::size_t kCharacter = 16;  // byte of a text whose characters are examined one by one
  static constexpr std::size_t kLimit = std::size_t{1} << 29;
  static constexpr std::size_t kDepth = 1000;  // limit of nested nodes and nested values

  // Spends units. Reading or writing a byte costs one unit.
  void spend(std::size_t units) {
    if (units > left_) exhausted();
    left_ -= units;
  }

  // One level of recursion, for the lifetime of the object.
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

// Owns all objects that values refer to, until the rendering ends, because values may refer to each other in
// cycles.
class Heap {
 public:
  explicit Heap(Budget& budget) : budget_(budget) {}

  List* make_list(std::vector<Value> items, List::Kind kind = List::Kind::list);
  Dict* make_dict(std::vector<std::pair<Value, Value>> members);
  Namespace* make_namespace();
  Callable* make_callable(std::function<Value(Arguments&)> call);
  // Makes a callable for which arguments that `call` has not taken are an error.
  Callable* make_function(std::function<Value(Arguments&)> call);
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

// The value of a number or a boolean, which counts as 0 or 1.
std::optional<double> number_of(const Value& value);
// The value of a whole number or a boolean.
std::optional<std::int64_t> whole_number_of(const Value& value);

// The truth value.
bool is_true(const Value& value);

// The operators == and <. `less` compares numbers, texts or lists, and throws EvaluationError for values
// without an order.
bool equal(const Value& a, const Value& b, Budget& budget);
bool less(const Value& a, const Value& b, Budget& budget);

// The member of a dict; null if it does not exist.
const Value* find_member(const Dict& dict, const Value& key, Budget& budget);
const Value* find_text_member(const Dict& dict, std::string_view key, Budget& budget);

// The elements that `for` visits: those of a list or generator, the keys of a dict, the characters of a text,
// or none for an undefined value. Throws EvaluationError for other values.
std::vector<Value> elements_of(const Value& value, Budget& budget);

// The number of elements. Throws EvaluationError.
std::size_t length_of(const Value& value, Budget& budget);

// An integer; booleans count as integers. Throws EvaluationError: "NAME must be a whole number".
std::int64_t integer_of(const Value& value, std::string_view name);
// A text. Throws EvaluationError.
const std::string& require_text(const Value& value, std::string_view name);
const MarkedText& marked_text_of(const Value& value, std::string_view name);

}  // namespace tp::jinja
