// A network switch in user space, with a delay and a rate, for simulated hosts. Not every kernel has Linux's
// own (tc netem).
//
//   network_switch DELAY_US MBIT TAP...
//
// Creates the TAP devices, which are then moved to the hosts' network namespaces, and runs until it is
// killed. A packet needs DELAY_US plus the switch's own time. MBIT limits the rate into each device; 0: no
// limit.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <exception>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <unistd.h>

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::nanoseconds;

struct Packet {
  Clock::time_point due;
  std::vector<unsigned char> bytes;
};

// A device, and the packets on their way to it.
struct Port {
  int device = -1;
  std::deque<Packet> packets{};
  Clock::time_point is_free{};
};

using Address = std::array<unsigned char, 6>;

Address address_at(const unsigned char* bytes) {
  Address address{};
  std::copy_n(bytes, address.size(), address.begin());
  return address;
}

int open_tap(const std::string& name) {
  const int device = ::open("/dev/net/tun", O_RDWR | O_NONBLOCK);
  ifreq request{};
  request.ifr_flags = IFF_TAP | IFF_NO_PI;
  name.copy(request.ifr_name, sizeof(request.ifr_name) - 1);
  if (device < 0 || ::ioctl(device, TUNSETIFF, &request) < 0)
    throw std::runtime_error("cannot create the TAP device " + name);
  return device;
}

class Switch {
 public:
  Switch(double delay_us, double mbit, const std::vector<std::string>& names)
      : delay_(static_cast<std::int64_t>(delay_us * 1e3)), per_byte_(mbit > 0 ? 8000.0 / mbit : 0.0) {
    for (const std::string& name : names) ports_.push_back({open_tap(name)});
  }

  [[noreturn]] void run() {
    std::vector<pollfd> devices;
    for (const Port& port : ports_) devices.push_back({port.device, POLLIN, 0});
    while (true) {
      const nanoseconds wait = deliver();
      const timespec time{wait.count() / 1'000'000'000, wait.count() % 1'000'000'000};
      ::ppoll(devices.data(), devices.size(), &time, nullptr);
      for (std::size_t from = 0; from < devices.size(); ++from) {
        if ((devices[from].revents & POLLIN) != 0) receive(from);
      }
    }
  }

 private:
  static constexpr std::size_t kHeader = 14;    // addresses and type of an Ethernet frame
  static constexpr std::size_t kOverhead = 24;  // preamble, checksum and gap
  static constexpr std::size_t kMaxPackets = 20'000;

  // Writes the packets that are due. Returns the time until the next one is due.
  nanoseconds deliver() {
    nanoseconds wait = std::chrono::seconds(1);
    const Clock::time_point now = Clock::now();
    for (Port& port : ports_) {
      for (; !port.packets.empty() && port.packets.front().due <= now; port.packets.pop_front()) {
        const std::vector<unsigned char>& bytes = port.packets.front().bytes;
        if (::write(port.device, bytes.data(), bytes.size()) < 0)
          continue;  // the packet is lost, as in a network
      }
      if (!port.packets.empty())
        wait = std::min<nanoseconds>(
            wait, std::max<nanoseconds>(nanoseconds(0), port.packets.front().due - Clock::now()));
    }
    return wait;
  }

  void receive(std::size_t from) {
    constexpr int kBurst = 64;
    std::vector<unsigned char> bytes(1 << 16);
    for (int packet = 0; packet < kBurst; ++packet) {
      const ssize_t size = ::read(ports_[from].device, bytes.data(), bytes.size());
      if (size < static_cast<ssize_t>(kHeader)) return;
      forward(from, {bytes.begin(), bytes.begin() + size});
    }
  }

  void forward(std::size_t from, const std::vector<unsigned char>& bytes) {
    const Address target = address_at(bytes.data());
    port_of_[address_at(bytes.data() + target.size())] = from;
    const auto known = port_of_.find(target);
    const bool is_for_all = known == port_of_.end() || (target[0] & 1) != 0;
    for (std::size_t to = 0; to < ports_.size(); ++to) {
      if (to != from && (is_for_all || known->second == to)) send(ports_[to], bytes);
    }
  }

  void send(Port& port, const std::vector<unsigned char>& bytes) {
    if (port.packets.size() >= kMaxPackets) return;
    const double duration = per_byte_ * static_cast<double>(bytes.size() + kOverhead);
    port.is_free = std::max(port.is_free, Clock::now()) + nanoseconds(static_cast<std::int64_t>(duration));
    port.packets.push_back({port.is_free + delay_, bytes});
  }

  nanoseconds delay_;
  double per_byte_;  // nanoseconds
  std::vector<Port> ports_;
  std::map<Address, std::size_t> port_of_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fputs("usage: network_switch DELAY_US MBIT TAP...\n", stderr);
    return 2;
  }
  try {
    ::prctl(PR_SET_TIMERSLACK, 1);  // ppoll would sleep 50 us longer
    // A switch should not wait for the hosts' computation. Without the permission for real-time priority, it
    // waits.
    const sched_param priority{.sched_priority = 1};
    ::sched_setscheduler(0, SCHED_FIFO, &priority);
    Switch(std::strtod(argv[1], nullptr), std::strtod(argv[2], nullptr), {argv + 3, argv + argc}).run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "network_switch: %s\n", error.what());
    return 1;
  }
}
