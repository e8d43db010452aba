// SPDX-License-Identifier: Apache-2.0
// Writes the seeds of the fuzz targets: make_corpus DIRECTORY
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include "extent/record_header.h"
#include "extent/superblock.h"
#include "larder.pb.h"
#include "nvmf/pdu/connect.h"
#include "nvmf/pdu/log_page.h"
#include "nvmf/pdu/pdu.h"
#include "wire/handshake.h"
#include "wire/key_stream.h"
#include "wire/keys.h"
#include "wire/message.h"

namespace {

namespace pb = larder::pb;
namespace wire = larder::wire;

std::filesystem::path root;

void seed(const std::string& target, const std::string& name, const std::string& bytes) {
  std::filesystem::create_directories(root / target);
  std::ofstream(root / target / name, std::ios::binary) << bytes;
}

template <std::size_t kBytes>
std::string text(const std::array<std::byte, kBytes>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string frame(const std::string& body, const std::string& payload) {
  wire::FrameHeader header;
  header.op = wire::Op::kPut;
  header.payload_bytes = payload.size();
  std::string raw(wire::kHeaderBytes, '\0');
  wire::encode_header(header, body, reinterpret_cast<std::byte*>(raw.data()));
  return raw + body + payload;
}

void frames() {
  const std::string step("\x10\x00\x00\x00", 4);
  const std::string raw = std::string(1, '\0') + step;
  const std::string built = "\x01" + step + std::string(4, '\0');
  seed("frame_receiver_fuzz", "two_frames", raw + frame("body", "payload") + frame("", ""));
  seed("frame_receiver_fuzz", "discard", "\x04" + step + frame("b", std::string(200, 'p')));
  seed("frame_receiver_fuzz", "built", built + std::string("\x00\x20\x30....abcdef", 13));
  seed("frame_receiver_fuzz", "built_large",
       built + std::string("\x03\x00\x90\x00\x00\x00\x80\x00\x00", 9) + "0123456789");
  seed("frame_receiver_fuzz", "damaged",
       "\x63" + step + std::string("\x07\x00\x00\x00\x00\x40\x40", 7) + std::string(20, 'd'));
}

void handshakes() {
  wire::ClientHello client;
  client.purpose = wire::Purpose::kBuffer;
  client.buffer_bytes = 1 << 20;
  seed("handshake_fuzz", "client", text(wire::encode(client)));
  wire::ServerHello server;
  server.token_required = true;
  server.epoch = 9;
  seed("handshake_fuzz", "server", text(wire::encode(server)));
  wire::Verdict verdict;
  verdict.code = larder::Code::kPermissionDenied;
  verdict.text = "the cluster token does not match";
  seed("handshake_fuzz", "verdict", text(wire::encode(verdict)));
}

pb::Keys three_keys() {
  pb::Keys keys;
  const std::vector<std::string_view> names = {"a", "ab", "zz"};
  wire::pack_keys({"t", "d", "s"}, names, keys);
  return keys;
}

void keys() {
  pb::Keys message = three_keys();
  seed("keys_fuzz", "three", message.SerializeAsString());
  message.add_lengths(5);
  seed("keys_fuzz", "disagree", message.SerializeAsString());
}

// With the byte that says how many keys there are, and how the stream is cut.
std::string key_stream(const std::vector<std::string_view>& names) {
  std::vector<std::byte> stream(wire::key_stream_bytes(names));
  wire::KeyWriter writer(names);
  writer.fill(stream);
  return {reinterpret_cast<const char*>(stream.data()), stream.size()};
}

void key_streams() {
  const std::string start("\x03\x00\x01", 3);
  seed("key_stream_fuzz", "three", start + key_stream({"a", "ab", "zz"}));
  seed("key_stream_fuzz", "empty_and_long",
       start + key_stream({"", std::string_view("k-0123456789"), "z"}));
  seed("key_stream_fuzz", "zeros", std::string("\x50\xff\x00\x00\x00\x01\x00", 7));
}

void texts() {
  seed("config_fuzz", "all",
       "a: {text: hello, flag: no, b: {ratio: 25%, size: 1.5MiB}}\n"
       "number: 12\nduration: 250ms\nchoice: two\nlist: [x, 'y z', \"q\\n\"]\n");
  seed("config_fuzz", "dotted", "a.text: 'it''s'\na.b.size: 64K\n# comment\nlist:\n  - one\n");
  seed("config_fuzz", "hostile", "a: &x [*x]\n? !!tag {k: v}\n---\n");
  seed("address_fuzz", "unix", "unix:/run/larder/node.sock");
  seed("address_fuzz", "v6", "tcp:[fe80::1%eth0]:7411");
  seed("address_fuzz", "bracketed_name", "tcp:[fg1%eth0]:2411");
  seed("address_fuzz", "host", "node-3.example:80");
  seed("address_fuzz", "bad", std::string("127.0.0.1\0x:99999", 17));
}

// A raw request as service_fuzz reads it: mode, step, body size and bytes, payload size and bytes.
std::string raw_request(const std::string& body, const std::string& payload) {
  const auto sized = [](const std::string& bytes) {
    const auto n = static_cast<std::uint32_t>(bytes.size());
    return std::string(reinterpret_cast<const char*>(&n), sizeof(n)) + bytes;
  };
  return std::string("\x02\x20", 2) + sized(body) + sized(payload);
}

void services() {
  pb::PutRequest put;
  *put.mutable_keys() = three_keys();
  for (int i = 0; i < 3; ++i) put.add_lengths(4);
  seed("service_put_fuzz", "raw", raw_request(put.SerializeAsString(), std::string(36, 'v')));
  pb::GetRequest get;
  *get.mutable_keys() = three_keys();
  for (int i = 0; i < 3; ++i) get.add_capacities(6000);
  seed("service_get_fuzz", "raw", raw_request(get.SerializeAsString(), ""));
  pb::LookupRequest lookup;
  wire::announce_keys({"t", "d", "s"}, 3, *lookup.mutable_keys());
  lookup.set_routes(true);
  for (const char* op : {"lookup", "match_prefix"}) {
    seed(std::string("service_") + op + "_fuzz", "raw",
         raw_request(lookup.SerializeAsString(), key_stream({"a", "ab", "zz"})));
  }
  pb::StatRequest stat;
  *stat.mutable_keys() = three_keys();
  for (const char* op : {"remove", "stat", "unpin"}) {
    seed(std::string("service_") + op + "_fuzz", "raw", raw_request(stat.SerializeAsString(), ""));
  }
  pb::PinRequest pin;
  *pin.mutable_keys() = three_keys();
  pin.set_lease_ms(1000);
  seed("service_pin_fuzz", "raw", raw_request(pin.SerializeAsString(), ""));
  pb::ListRequest list;
  list.set_tenant("t");
  list.set_domain("d");
  list.set_object_set("s");
  list.set_prefix("a");
  list.set_limit(2);
  seed("service_list_fuzz", "raw", raw_request(list.SerializeAsString(), ""));
  seed("service_info_fuzz", "raw", raw_request("", ""));
  seed("service_devices_fuzz", "list", raw_request("", ""));
  pb::DevicesRequest devices;
  devices.set_action(1);
  devices.set_device("/mnt/a");
  devices.set_size(1);
  seed("service_devices_fuzz", "add", raw_request(devices.SerializeAsString(), ""));
  for (std::uint32_t action = 2; action <= 6; ++action) {
    devices.set_action(action);
    devices.set_device("0123abcd-4567-89ef-0123-456789abcdef");
    seed("service_devices_fuzz", "action_" + std::to_string(action),
         raw_request(devices.SerializeAsString(), ""));
  }
  // Repaired requests: mode 3 or 1, then choices.
  for (const char* op : {"info", "put", "get", "lookup", "match_prefix", "remove", "stat", "list",
                         "pin", "unpin", "devices"}) {
    const std::string target = std::string("service_") + op + "_fuzz";
    seed(target, "built",
         std::string("\x03\x40\x03\x00\x01\x02\x07\x01\x00", 9) +
             std::string("\x20\x21\x4d\x90\x10\x10\x00\x00", 8) + std::string(60, '\x11'));
    seed(target, "built_twice",
         std::string("\x03\x10\x01\x03\x04\x01\x04\x30\x31", 9) + std::string(30, '\x05') +
             std::string(30, '\x03'));
  }
}

template <class Bytes>
std::string text_of(const Bytes& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

void extents() {
  namespace extent = larder::extent;
  extent::Superblock superblock;
  superblock.uuid.bytes[3] = std::byte{9};
  superblock.layout = *extent::layout_of({.blocks = 4096}, 4096);
  superblock.owner = "a node";
  seed("extent_fuzz", "superblock", "\x03" + text_of(extent::encode(superblock, 0)));
  seed("extent_fuzz", "superblock_mended", "\x81" + text_of(extent::encode(superblock, 1)));
  extent::Manifest manifest;
  manifest.tenant = "t";
  manifest.object_set = "set";
  for (const std::size_t key : {3U, 900U}) {
    manifest.key = std::string(key, 'k');
    const auto bytes = *extent::encode(manifest);
    seed("extent_fuzz", "manifest_" + std::to_string(key), "\x02" + text_of(bytes));
    extent::RecordHeader header;
    header.cell = 5;
    header.cells = extent::cells_for(2, bytes.size());
    header.sequence = 77;
    header.payload_bytes = 8000;
    const std::uint64_t data = superblock.layout.data_offset;
    header.extents = {{data + 8192, 4096}, {data, 4096}};
    header.manifest = bytes;
    const auto cells = extent::encode(superblock.uuid, superblock.layout, header);
    const std::string where("\x05\x00\x00\x00", 4);
    seed("extent_fuzz", "header_" + std::to_string(key), "\x01" + where + text_of(cells));
    seed("extent_fuzz", "header_mended_" + std::to_string(key), "\x82" + where + text_of(cells));
  }
  const auto tombstone = extent::encode_tombstone(superblock.uuid, superblock.layout, 5, 9);
  seed("extent_fuzz", "tombstone", std::string("\x01\x05\x00\x00\x00", 5) + text_of(tombstone));
}

template <class T>
std::string raw_of(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

template <class T>
std::string pdu_of(T pdu) {
  std::array<std::byte, larder::nvmf::kHeadBytesMax> head{};
  const std::size_t size = larder::nvmf::encode_head(pdu, 0, 0, {}, head);
  return {reinterpret_cast<const char*>(head.data()), size};
}

void nvmf() {
  namespace nvmf = larder::nvmf;
  nvmf::CapsuleCmd command;
  command.command.opcode = static_cast<std::uint8_t>(nvmf::IoOpcode::kRead);
  command.command.nsid = 1;
  command.command.sgl = nvmf::Sgl::transport(512);
  seed("nvmf_pdu_fuzz", "layout", std::string("\0\0\0", 3) + pdu_of(command));
  seed("nvmf_pdu_fuzz", "fields", "\x01" + pdu_of(nvmf::R2t{}) + pdu_of(nvmf::IcReq{}));
  seed("nvmf_pdu_fuzz", "built", "\x02\xff" + pdu_of(command));
  nvmf::IdentifyController controller;
  controller.sgls = nvmf::kSglsAny;
  nvmf::IdentifyNamespace space;
  space.nsze = 100;
  space.formats[0].lbads = 12;
  seed("nvmf_pdu_fuzz", "identify", "\x03" + raw_of(controller) + raw_of(space));
  std::array<std::byte, nvmf::kIdentifyBytes> ids{};
  nvmf::encode_ids({.nguid = {1}, .has_nguid = true}, ids);
  seed("nvmf_pdu_fuzz", "ids", "\x04" + text(ids));
  nvmf::ConnectData data;
  nvmf::encode_nqn(nvmf::kDiscoveryNqn, data.subnqn);
  seed("nvmf_pdu_fuzz", "names", "\x05" + raw_of(data));
  seed("nvmf_target_fuzz", "raw", std::string("\0", 1) + pdu_of(nvmf::IcReq{}) + pdu_of(command));
  for (const char mode : {'\x18', '\x10', '\x1b', '\x1c'}) {
    const std::string name(1, static_cast<char>('a' + (mode & 15)));
    seed("nvmf_target_fuzz", "queue_" + name, mode + pdu_of(command) + pdu_of(command));
    std::string built(1, static_cast<char>(mode | 32));
    for (const std::uint8_t opcode : {0, 1, 2, 8, 9, 0x06, 0x0C, 0x7F}) {
      command.command.opcode = opcode;
      ++command.command.cid;
      built += "\x20" + raw_of(command.command);
    }
    built += std::string("\x0f\x02\x00\x07", 4);
    seed("nvmf_target_fuzz", "built_" + name, built);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: make_corpus DIRECTORY\n";
    return 2;
  }
  root = argv[1];
  frames();
  handshakes();
  keys();
  key_streams();
  texts();
  services();
  extents();
  nvmf();
  return 0;
}
