// A way to answer requests that the leader alone cannot answer.
#pragma once

#include "tp/event.h"
#include "tp/leader_status.h"
#include "tp/request.h"

namespace tp {

// A mode turns a request into several passes, which are requests to the leader. All members may be called
// from any thread.
class Mode {
 public:
  virtual ~Mode() = default;

  // Whether this mode answers the request, rather than the leader.
  virtual bool answers(const Request& request) const = 0;
  // Throws like Leader::submit.
  virtual RequestId submit(Request request, EventSink sink) = 0;
  // Ends the request with RequestCancelled, unless it ends on its own first. Returns false if it is not
  // running in this mode.
  virtual bool cancel(RequestId request) = 0;
  // Adds the number of generated tokens and the counts of finish reasons to `status`.
  virtual void add_to(LeaderStatus& status) const = 0;
};

}  // namespace tp
