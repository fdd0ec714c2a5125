#pragma once

#include "runtime/http/http_message.h"

#include <functional>
#include <string>

namespace tp {

// A request and the response to it, which is either whole (`respond`) or a stream (`begin_stream`,
// `write`..., `end_stream`). All members may be called from any thread and return at once; what is sent to a
// client that has left is dropped. An exchange destroyed without a response answers with status 500; one
// whose stream has not ended closes the connection, so that the client notices.
class HttpExchange {
 public:
  virtual ~HttpExchange() = default;

  // Without its body, which take_body() hands out once, since it may be large.
  virtual const HttpRequest& request() const = 0;
  virtual std::string take_body() = 0;

  virtual void respond(HttpResponse response) = 0;

  // Sends the head of a response; the body of `head` must be empty.
  virtual void begin_stream(HttpResponse head) = 0;
  virtual void write(std::string piece) = 0;
  virtual void end_stream() = 0;

  // `callback` is called once, on the server's thread, if the client leaves, or stops reading, before it has
  // the whole response: at once if it has done so already.
  virtual void on_abandoned(std::function<void()> callback) = 0;
};

}  // namespace tp
