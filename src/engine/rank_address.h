#pragma once

#include <string>

#include "src/base/descriptor.h"

/// Where ranks meet: "unix:@name" or "unix:/a/path" on one machine, for one user; "host:port" or
/// "[::1]:port" on several.
namespace rlreplay::engine {

struct RankListener {
  Descriptor socket;
  std::string address;  // with the port that it got
};

/// Listens at an address; port 0: any that is free. Nothing (an empty socket) where it is taken.
/// Errors: kUsage for a text that is no address; kEnvironment.
RankListener listen_at(const std::string& address);

/// Connects; nothing where nobody listens there (yet), or does not answer within `timeout_ms`.
/// Errors: as listen_at.
Descriptor connect_to(const std::string& address, int timeout_ms);

/// Waits for who connects, until `timeout_ms`; then nothing.
Descriptor accept_from(const RankListener& listener, int timeout_ms);

/// The address of this machine by which the other end of `connection` reaches it, with a port.
std::string own_address(const Descriptor& connection, int port);

/// One message with its length in front, whole, within `timeout_ms`. False where that fails.
[[nodiscard]] bool send_text(const Descriptor& socket, const std::string& text, int timeout_ms);
[[nodiscard]] bool receive_text(const Descriptor& socket, std::string& text, int timeout_ms);

}  // namespace rlreplay::engine
