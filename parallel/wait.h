// How a rank waits for others, and what it does about one that does not come.
#pragma once

#include "parallel/placement.h"
#include "parallel/stopwatch.h"
#include "tp/communicator.h"

#include <chrono>
#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace tp {

// What all waits of a communicator have in common.
struct Patience {
  const Placement& placement;
  WaitOptions options;
  bool crowded = false;  // more ranks than processors: waiting must not spin
};

// One wait, from its construction on:
//
//   Wait wait(...);
//   while (!it_has_come()) wait.turn();
//
// Turns spin at first, then yield the processor or, if polite, sleep. A wait that takes long is told to
// WaitOptions::on_long_wait, once and by one rank; one that takes longer than WaitOptions::timeout is an
// error.
class Wait {
 public:
  struct Manner {
    const char* collective = "";  // "an all-reduce"
    bool polite = false;          // sleeps soon: what it waits for may take a while
    // Rank 0 may keep the others waiting for as long as it likes, say because it waits for its user. Then a
    // wait for it alone is no news unless its process has been stopped.
    bool root_has_time = false;
    double patience = 1.0;  // factor of the time until it is told of
  };
  using Ranks = std::vector<std::size_t>;

  // `together`: the ranks that wait for the same thing, this one among them; the first of them that is not
  // missing speaks. `missing`: for which ranks it still waits; none, if others are to speak of it.
  Wait(const Patience& patience, Manner manner, std::span<const std::size_t> together,
       std::function<Ranks()> missing);

  // Between two looks whether it has come. Throws CommError after the timeout.
  void turn();

 private:
  void look();
  void rest();
  double look_every() const;
  bool is_up_to_root(const Ranks& missing) const;
  bool speaks(const Ranks& missing) const;
  bool is_no_news(const Ranks& missing) const;
  std::string text_of(const Ranks& missing) const;

  const Patience& patience_;
  Manner manner_;
  std::span<const std::size_t> together_;
  std::function<Ranks()> missing_;
  int turns_ = 0;
  bool told_ = false;
  double until_told_ = 0.0;  // seconds of overdue_, like the next two
  double until_end_ = 0.0;
  double next_look_ = 0.0;
  Stopwatch begun_;
  Stopwatch overdue_;
  std::chrono::microseconds sleep_{20};
};

}  // namespace tp
