// Finds the line of a job's messages that best explains why the job has ended.
#pragma once

#include <string>
#include <string_view>

namespace tp {

class ErrorLines {
 public:
  // Adds bytes of the job's standard error.
  void add(std::string_view bytes);
  // For a job that has become ready: forgets all lines so far, and from now on ignores lines that are not
  // errors, such as the log of requests.
  void expect_errors();
  // The line that names a missing program or a lost rank, else the last error of tp-infer, else the last line
  // with letters. At most a few hundred bytes; empty without lines.
  const std::string& best() const { return best_; }
  bool names_rank() const { return rank_ == kNamesRank; }
  // Whether mpirun has found no program to run, which best() names.
  bool names_program() const { return rank_ == kNamesProgram; }

 private:
  void take(std::string_view line);

  std::string pending_{};  // an incomplete line
  std::string best_{};
  static constexpr int kNamesRank = 3;
  static constexpr int kNamesProgram = 4;
  static int explains(std::string_view line);

  int rank_ = 0;  // how well `best_` explains an end
  int min_ = 1;   // how well a line must explain it
};

}  // namespace tp
