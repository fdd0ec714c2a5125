// How a session notices that its client has left.
#include "runtime/http/http_session.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include <poll.h>
#include <sys/socket.h>

namespace tp {
namespace {

constexpr std::chrono::milliseconds kFirstLook{10};
constexpr std::chrono::milliseconds kLookEvery{500};

}  // namespace

// Notices if the client leaves before its request is answered. A client that has ended only its own direction
// of the connection waits for the answer.
void HttpSession::watch() {
  if (watching_) return;
  watching_ = true;
  stream_.socket().async_wait(Tcp::socket::wait_read, [self = shared_from_this()](const Error& error) {
    self->watching_ = false;
    if (!error) self->look_at_client();
  });
}

void HttpSession::look_at_client() {
  if (state_ != State::answering && state_ != State::streaming) return;
  char next = 0;
  const ssize_t seen = ::recv(stream_.socket().native_handle(), &next, 1, MSG_PEEK | MSG_DONTWAIT);
  if (seen < 0 && (errno == EAGAIN || errno == EINTR)) return watch();
  if (seen < 0) return close();
  look_delay_ = kFirstLook;
  look_again_later();
}

// For a client that has already sent its next request or the end of its requests: waiting for readability
// would return at once, again and again.
void HttpSession::look_again_later() {
  deadline_.expires_after(look_delay_);
  look_delay_ = std::min(2 * look_delay_, kLookEvery);
  deadline_.async_wait([weak = weak_from_this()](const Error& error) {
    const auto self = weak.lock();
    if (error || !self || (self->state_ != State::answering && self->state_ != State::streaming)) return;
    pollfd client{self->stream_.socket().native_handle(), POLLRDHUP, 0};
    ::poll(&client, 1, 0);
    if ((client.revents & (POLLHUP | POLLERR)) != 0) return self->close();
    if ((client.revents & POLLRDHUP) != 0) self->probe_client();
    self->look_again_later();
  });
}

// If the client has closed its connection, its host answers any byte with an error, which the next look
// notices. The probes become rarer, because there are only a few. Streams need none: their pieces are probes.
void HttpSession::probe_client() {
  const auto now = std::chrono::steady_clock::now();
  if (state_ != State::answering || probed_ == kVersion.size() || now < next_probe_) return;
  next_probe_ = now + std::chrono::seconds(1 << probed_);
  pending_ += kVersion[probed_++];
  write_more();
}

void HttpSession::on_abandoned(std::uint64_t request, std::function<void()> callback) {
  if (request != request_ || state_ == State::finishing) return;
  if (state_ == State::closed) return callback();
  abandoned_ = std::move(callback);
}

void HttpSession::abandon() {
  if (const std::function<void()> callback = std::exchange(abandoned_, nullptr)) callback();
}

}  // namespace tp
