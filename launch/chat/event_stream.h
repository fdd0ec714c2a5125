#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace tp {

// Reads server-sent events from any pieces of bytes.
class EventStream {
 public:
  // Called with the data of every event.
  explicit EventStream(std::function<void(const std::string& data)> receive) : receive_(std::move(receive)) {}

  // Throws RequestError for an event of more than 16 MiB. Passes on the receiver's exceptions.
  void read(std::string_view bytes);

 private:
  void end_line();

  std::function<void(const std::string&)> receive_;
  std::string line_;
  std::string data_;
  bool has_data_ = false;
};

}  // namespace tp
