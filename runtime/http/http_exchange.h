#pragma once

#include "runtime/http/http_message.h"

#include <functional>
#include <string>

namespace tp {

// A request and its response. The response is either whole (`respond`) or a stream (`begin_stream`,
// `write`..., `end_stream`). All members may be called from any thread and return at once. Data for a client
// that has left is dropped. An exchange that is destroyed without a response answers with status 500. If its
// stream has not ended, it closes the connection, so that the client notices.
class HttpExchange {
 public:
  virtual ~HttpExchange() = default;

  // The request without its body. take_body() returns the body, which may be large, only once.
  virtual const HttpRequest& request() const = 0;
  virtual std::string take_body() = 0;

  virtual void respond(HttpResponse response) = 0;

  // Sends the head of a response; the body of `head` must be empty.
  virtual void begin_stream(HttpResponse head) = 0;
  virtual void write(std::string piece) = 0;
  virtual void end_stream() = 0;

  // Calls `callback` once, on the server's thread, if the client leaves or stops reading before it has the
  // whole response. Calls it at once if that has already happened. A client that has ended only its own
  // direction of the connection has not left. To find out, the server sends the first bytes of the response
  // before it knows the rest. If a stream has begun, its next piece shows that the client has left.
  virtual void on_abandoned(std::function<void()> callback) = 0;
};

}  // namespace tp
