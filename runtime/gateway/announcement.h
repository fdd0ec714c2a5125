// The message that rank 0 of a job sends to the gateway when the job is ready.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tp {

// The environment variable of a job that contains the URL to announce itself at. The last part of the URL's
// path is the secret that the gateway and the server share.
inline constexpr const char* kAnnounceVariable = "TP_ANNOUNCE";

// The beginning of the URL's path.
inline constexpr std::string_view kAnnouncePath = "/tp-infer/announce/";

inline constexpr std::size_t kMaxAnnouncement = std::size_t{256} << 10;  // bytes of its text

struct Announcement {
  std::string host{};  // address that the server listens at
  std::uint16_t port = 0;
  std::int64_t process = 0;  // process id of rank 0
  std::string machine{};     // name of its host
  std::string isa{};         // instruction set of the kernels: "avx2"
  std::string card{};        // the model's members in a list of models, as a JSON object; may be empty
  std::string model{};       // differs between models, so that no answer continues another model's
  std::size_t ranks = 0;
  std::vector<std::string> origins{};  // web pages that may use the server

  // The text that parse_announcement reads.
  std::string to_text() const;
};

// Throws RequestError if the text is not an announcement.
Announcement parse_announcement(std::string_view text);

// The last part of the path of a URL.
std::string secret_in(std::string_view path);

}  // namespace tp
