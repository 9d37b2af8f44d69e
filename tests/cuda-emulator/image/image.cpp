#include "image.h"

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace emulator {

namespace {

constexpr char CUBIN_MAGIC[16] = "wisp-cubin-0001";
constexpr char PTX_MAGIC[] = "// wisp-emulator-ptx ";

struct Header {
    char magic[16];
    uint32_t architecture, configuration_bytes;
    uint64_t object_bytes;
    uint64_t body_hash;
    /// Of everything above: the length must not be trusted in damaged bytes.
    uint64_t header_hash;
};

uint64_t hash_header(const Header& header) { return hash_bytes(&header, offsetof(Header, header_hash)); }

bool decode_cubin(const char* bytes, Image& image) {
    Header header;
    memcpy(&header, bytes, sizeof header);
    if (hash_header(header) != header.header_hash) return false;
    const char* body = bytes + sizeof header;
    size_t count = header.configuration_bytes + header.object_bytes;
    if (hash_bytes(body, count) != header.body_hash) return false;
    image.architecture = header.architecture;
    image.configuration.assign(body, header.configuration_bytes);
    image.object.assign(body + header.configuration_bytes, header.object_bytes);
    return true;
}

bool decode_ptx(const char* text, Image& image) {
    std::string bytes;
    for (text += sizeof PTX_MAGIC - 1; text[0] && text[0] != '\n'; text += 2) {
        char digits[3] = {text[0], text[1], 0}, *end;
        bytes += static_cast<char>(strtoul(digits, &end, 16));
        if (end != digits + 2) return false;
    }
    return bytes.size() > sizeof(Header) && decode_cubin(bytes.data(), image);
}

}  // namespace

std::string current_configuration() {
    auto value = [](const char* name, const char* fallback) {
        const char* text = getenv(name);
        return std::string(text && *text ? text : fallback);
    };
    // `shared` and `all` have the same instrumentation.
    bool off = value("CUDA_EMULATOR_RACES", "shared") == "off";
    return std::string("races=") + (off ? "off" : "on") + " drop=" + value("CUDA_EMULATOR_DROP_BARRIER", "0") +
           " build=" + EMULATOR_BUILD;
}

std::string encode_cubin(const Image& image) {
    std::string body = image.configuration + image.object;
    Header header{};
    memcpy(header.magic, CUBIN_MAGIC, sizeof header.magic);
    header.architecture = image.architecture;
    header.configuration_bytes = static_cast<uint32_t>(image.configuration.size());
    header.object_bytes = image.object.size();
    header.body_hash = hash_bytes(body.data(), body.size());
    header.header_hash = hash_header(header);
    return std::string(reinterpret_cast<const char*>(&header), sizeof header) + body;
}

std::string encode_ptx(const Image& image) {
    static const char DIGITS[] = "0123456789abcdef";
    std::string text = PTX_MAGIC;
    for (char c : encode_cubin(image)) {
        auto byte = static_cast<unsigned char>(c);
        text += {DIGITS[byte >> 4], DIGITS[byte & 15]};
    }
    return text + "\n";
}

bool decode_image(const void* bytes, Image& image) {
    auto* text = static_cast<const char*>(bytes);
    if (!strncmp(text, CUBIN_MAGIC, sizeof CUBIN_MAGIC)) return decode_cubin(text, image);
    if (!strncmp(text, PTX_MAGIC, sizeof PTX_MAGIC - 1)) return decode_ptx(text, image);
    return false;
}

/// FNV-1a over words of eight bytes, mixed once more at the end.
uint64_t hash_bytes(const void* bytes, size_t count, uint64_t seed) {
    auto* at = static_cast<const unsigned char*>(bytes);
    uint64_t hash = 0xcbf29ce484222325 ^ seed;
    for (; count >= 8; at += 8, count -= 8) {
        uint64_t word;
        memcpy(&word, at, 8);
        hash = (hash ^ word) * 0x100000001b3;
        hash ^= hash >> 29;
    }
    for (; count; at++, count--) hash = (hash ^ *at) * 0x100000001b3;
    return hash ^ hash >> 32;
}

}  // namespace emulator
