#include "report.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "device_memory.h"
#include "execution.h"

namespace emulator {

namespace {

/// A temporary file with the kernel's program, for tools that read files.
class ObjectFile {
public:
    explicit ObjectFile(const std::string& bytes) {
        const char* folder = getenv("TMPDIR");
        path_ = std::string(folder && *folder ? folder : "/tmp") + "/wisp-kernel-XXXXXX";
        int file = mkstemp(path_.data());
        if (file < 0) return;
        if (write(file, bytes.data(), bytes.size()) < 0) perror("cuda-emulator: a temporary file");
        close(file);
    }
    ~ObjectFile() { unlink(path_.c_str()); }
    const std::string& path() const { return path_; }

private:
    std::string path_;
};

std::string position(Dim at) {
    return "(" + std::to_string(at.x) + ", " + std::to_string(at.y) + ", " + std::to_string(at.z) + ")";
}

int find_program(dl_phdr_info* info, size_t, void* data) {
    auto& program = *static_cast<Program*>(data);
    if (reinterpret_cast<const char*>(info->dlpi_addr) != program.base) return 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const auto& segment = info->dlpi_phdr[i];
        if (segment.p_type != PT_LOAD || !(segment.p_flags & PF_W)) continue;
        program.writable_begin = info->dlpi_addr + segment.p_vaddr;
        // To the end of its last page: nothing else lies there.
        program.writable_end = (program.writable_begin + segment.p_memsz + 4095) & ~uintptr_t{4095};
    }
    return 1;
}

/// The name of a function-local variable in its mangled form, such as `tile` in _ZZ5main_E4tile.
std::string local_name(const char* mangled) {
    std::string name = mangled;
    size_t digits = name.size();
    for (size_t at = 0; at + 1 < name.size(); at++) {
        if (name[at] == 'E' && name[at + 1] >= '0' && name[at + 1] <= '9') digits = at + 1;
    }
    if (digits == name.size()) return name;
    size_t length = 0;
    while (digits < name.size() && name[digits] >= '0' && name[digits] <= '9')
        length = length * 10 + static_cast<size_t>(name[digits++] - '0');
    return name.substr(digits, length);
}

}  // namespace

std::string thread_position(unsigned index) { return position(execution.indices[index]); }

std::string current_thread() {
    return "kernel `" + execution.launch->kernel.name + "`, block " + position(execution.block) + ", thread " +
           thread_position(execution.current);
}

std::string source_line(const void* pc) {
    Dl_info info;
    if (!dladdr(pc, &info)) return "no source line";
    // The instruction before the one to return to.
    auto offset = static_cast<size_t>(static_cast<const char*>(pc) - static_cast<const char*>(info.dli_fbase)) - 1;
    ObjectFile file(*execution.launch->kernel.object);
    char command[400];
    snprintf(command, sizeof command, "addr2line -i -e '%s' %#zx 2>/dev/null", file.path().c_str(), offset);
    FILE* tool = popen(command, "r");
    if (!tool) return "no source line";
    // The last line is the outermost function: the kernel itself.
    char line[400], last[400] = "";
    while (fgets(line, sizeof line, tool)) memcpy(last, line, sizeof last);
    pclose(tool);
    last[strcspn(last, "\n")] = 0;
    if (char* note = strstr(last, " (disc")) *note = 0;
    const char* name = strrchr(last, '/');
    return *last && last[0] != '?' ? std::string(name ? name + 1 : last) : "no source line";
}

Program program_of(const WispKernelInfo* kernel) {
    Dl_info info;
    if (!dladdr(kernel, &info)) return {};
    Program program{static_cast<const char*>(info.dli_fbase), 0, 0};
    dl_iterate_phdr(find_program, &program);
    return program;
}

std::string describe_shared(uintptr_t address) {
    const Kernel& kernel = execution.launch->kernel;
    const std::string& object = *kernel.object;
    auto wanted = address - reinterpret_cast<uintptr_t>(program_of(kernel.info).base);
    auto* header = reinterpret_cast<const ElfW(Ehdr)*>(object.data());
    auto* sections = reinterpret_cast<const ElfW(Shdr)*>(object.data() + header->e_shoff);
    for (unsigned i = 0; i < header->e_shnum; i++) {
        if (sections[i].sh_type != SHT_SYMTAB) continue;
        const char* names = object.data() + sections[sections[i].sh_link].sh_offset;
        auto* symbols = reinterpret_cast<const ElfW(Sym)*>(object.data() + sections[i].sh_offset);
        for (size_t j = 0; j < sections[i].sh_size / sizeof *symbols; j++) {
            const auto& symbol = symbols[j];
            if ((symbol.st_info & 0xf) != STT_OBJECT || wanted - symbol.st_value >= symbol.st_size) continue;
            return "byte " + std::to_string(wanted - symbol.st_value) + " of `" + local_name(names + symbol.st_name) +
                   "`";
        }
    }
    return "byte " + std::to_string(address - reinterpret_cast<uintptr_t>(kernel.module->shared_begin)) +
           " of workgroup memory";
}

std::string describe_address(uintptr_t address) {
    const WispModuleInfo& module = *execution.launch->kernel.module;
    auto begin = reinterpret_cast<uintptr_t>(module.shared_begin), end = reinterpret_cast<uintptr_t>(module.shared_end);
    return address >= begin && address < end ? describe_shared(address) : DeviceMemory::instance().describe(address);
}

}  // namespace emulator
