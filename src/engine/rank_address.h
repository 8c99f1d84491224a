#pragma once

#include <string>

#include "src/base/descriptor.h"

/// Where ranks meet: "unix:@name" or "unix:/a/path" on one machine, for one user; "10.0.0.1:port"
/// or "[::1]:port" on several. A host's name is looked up first (look_up_host).
namespace rlreplay::engine {

/// The number of a host, "10.0.0.1" or "::1"; nobody knows how long that takes. Errors:
/// kEnvironment where the name is not known.
[[nodiscard]] std::string look_up_host(const std::string& host);

/// The host that an address names, and the same address with another one; empty, and as it is, of a
/// unix socket. Errors: kUsage for a text that is no address.
[[nodiscard]] std::string host_of(const std::string& address);
[[nodiscard]] std::string with_host(const std::string& address, const std::string& host);

/// A socket at which other ranks may connect.
struct RankListener {
  Descriptor socket;
  std::string address;  // with the port that it got
};

/// Listens at an address; port 0: any that is free. Nothing (an empty socket) where it is taken, or
/// may not be taken by this user.
/// Errors: kUsage for a text that is no address; kEnvironment.
[[nodiscard]] RankListener listen_at(const std::string& address);

/// Connects; nothing where nobody listens there (yet), or does not answer within `timeout_ms`.
/// Errors: as listen_at.
[[nodiscard]] Descriptor connect_to(const std::string& address, int timeout_ms);

/// Waits for who connects, until `timeout_ms`; then nothing.
[[nodiscard]] Descriptor accept_from(const RankListener& listener, int timeout_ms);

/// The address of this machine by which the other end of `connection` reaches it, with a port.
[[nodiscard]] std::string own_address(const Descriptor& connection, int port);

/// One message with its length in front, whole, within `timeout_ms`. False where that fails.
[[nodiscard]] bool send_text(const Descriptor& socket, const std::string& text, int timeout_ms);
[[nodiscard]] bool receive_text(const Descriptor& socket, std::string& text, int timeout_ms);

}  // namespace rlreplay::engine
