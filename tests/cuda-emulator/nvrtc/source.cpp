#include "source.h"

#include <cctype>

namespace emulator {

namespace {

bool is_name(char c) { return isalnum(static_cast<unsigned char>(c)) || c == '_'; }

void skip_space(const std::string& source, size_t& at) {
    while (at < source.size() && isspace(static_cast<unsigned char>(source[at]))) at++;
}

std::string take_name(const std::string& source, size_t& at) {
    skip_space(source, at);
    size_t begin = at;
    while (at < source.size() && is_name(source[at])) at++;
    return source.substr(begin, at - begin);
}

/// The text between the parenthesis that comes next and the one that closes it.
std::string take_parentheses(const std::string& source, size_t& at) {
    skip_space(source, at);
    size_t begin = at + 1;
    for (int depth = 0; at < source.size();) {
        char c = source[at++];
        if (c == '(') depth++;
        if (c == ')' && --depth == 0) return source.substr(begin, at - begin - 1);
    }
    return "";
}

}  // namespace

std::vector<KernelDeclaration> find_kernels(const std::string& source) {
    static const std::string WORD = "__global__";
    std::vector<KernelDeclaration> kernels;
    for (size_t at = 0; (at = source.find(WORD, at)) != std::string::npos;) {
        at += WORD.size();
        KernelDeclaration kernel{"", "1024"};
        // void, and attributes with arguments, until a name with a list of parameters.
        for (;;) {
            std::string name = take_name(source, at);
            if (name.empty()) break;
            skip_space(source, at);
            if (name == "__launch_bounds__") {
                kernel.max_threads = take_parentheses(source, at);
                kernel.max_threads = kernel.max_threads.substr(0, kernel.max_threads.find(','));
            } else if (at < source.size() && source[at] == '(') {
                kernel.name = name;
                kernels.push_back(kernel);
                break;
            }
        }
    }
    return kernels;
}

bool drop_barrier(std::string& source, unsigned nth) {
    static const std::string BARRIER = "__syncthreads();";
    size_t at = source.find(BARRIER);
    for (unsigned i = 1; i < nth && at != std::string::npos; i++) at = source.find(BARRIER, at + 1);
    if (at == std::string::npos) return false;
    source.replace(at, BARRIER.size(), ";");
    return true;
}

}  // namespace emulator
