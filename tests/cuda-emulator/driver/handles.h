// The driver's handles: pointers to objects that are checked against a list of those that are alive.
#pragma once
#include <map>
#include <memory>
#include <mutex>

namespace emulator {

/// All live objects of one kind.
template <class T>
class Handles {
public:
    T* add(std::shared_ptr<T> object) {
        std::lock_guard lock(mutex_);
        T* handle = object.get();
        live_[handle] = std::move(object);
        return handle;
    }
    /// The object; null if the handle was never made, or has been destroyed.
    std::shared_ptr<T> find(T* handle) {
        std::lock_guard lock(mutex_);
        auto found = live_.find(handle);
        return found == live_.end() ? nullptr : found->second;
    }
    /// Ends the handle's life; what still works with the object keeps it.
    std::shared_ptr<T> remove(T* handle) {
        std::lock_guard lock(mutex_);
        auto found = live_.find(handle);
        if (found == live_.end()) return nullptr;
        auto object = std::move(found->second);
        live_.erase(found);
        return object;
    }
    size_t size() {
        std::lock_guard lock(mutex_);
        return live_.size();
    }
    template <class Predicate>
    void remove_if(Predicate predicate) {
        std::lock_guard lock(mutex_);
        for (auto at = live_.begin(); at != live_.end();) at = predicate(*at->second) ? live_.erase(at) : std::next(at);
    }

    static Handles& all() {
        static auto* handles = new Handles;
        return *handles;
    }

private:
    std::mutex mutex_;
    std::map<T*, std::shared_ptr<T>> live_;
};

}  // namespace emulator
