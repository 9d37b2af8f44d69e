// What llama.cpp makes of a model: `greedy MODEL IDS COUNT` prints the ids that follow, `logits MODEL IDS`
// the logits of the last id, `hidden MODEL IDS` an encoder's hidden states one after the other, `scores MODEL IDS` the
// scores of a pair of texts, `tokenize MODEL` the ids of each text of standard input, which a zero ends. llama_cpp.py builds and runs this.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "llama.h"

static void quiet(ggml_log_level level, const char * text, void *) {
    if (level == GGML_LOG_LEVEL_ERROR) fputs(text, stderr);
}

static int tokenize(const llama_model * model) {
    for (std::string text; std::getline(std::cin, text, '\0');) {
        std::vector<llama_token> ids(text.size() + 16);
        const int count = llama_tokenize(llama_model_get_vocab(model), text.data(), int(text.size()),
                                         ids.data(), int(ids.size()), false, false);
        if (count < 0) return 1;
        for (int i = 0; i < count; i++) printf("%d ", ids[i]);
        puts("");
    }
    return 0;
}

int main(int argc, char ** argv) {
    if (argc < 3) return 2;
    const std::string what = argv[1];
    llama_log_set(quiet, nullptr);
    llama_backend_init();
    llama_model_params params = llama_model_default_params();
    params.vocab_only = what == "tokenize";
    params.n_gpu_layers = 0;
    llama_model * model = llama_model_load_from_file(argv[2], params);
    if (!model) return 1;
    if (what == "tokenize") return tokenize(model);
    if (argc < 4) return 2;
    std::vector<llama_token> ids;
    std::istringstream list(argv[3]);
    for (std::string id; std::getline(list, id, ',');) ids.push_back(atoi(id.c_str()));
    const int count = argc > 4 ? atoi(argv[4]) : 0;
    llama_context_params settings = llama_context_default_params();
    settings.n_ctx = uint32_t(ids.size() + count + 1);
    settings.n_batch = settings.n_ubatch = settings.n_ctx;
    settings.type_k = settings.type_v = GGML_TYPE_F32;
    settings.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
    settings.swa_full = true;
    settings.embeddings = what == "hidden" || what == "scores";
    settings.pooling_type = what == "scores" ? LLAMA_POOLING_TYPE_RANK : LLAMA_POOLING_TYPE_NONE;
    llama_context * context = llama_init_from_model(model, settings);
    if (!context) return 1;
    llama_set_n_threads(context, 2, 2);
    const int vocab = llama_vocab_n_tokens(llama_model_get_vocab(model));
    llama_batch batch = llama_batch_get_one(ids.data(), int(ids.size()));
    if (what == "scores") {
        if (llama_decode(context, batch)) return 1;
        const float * scores = llama_get_embeddings_seq(context, 0);
        for (uint32_t i = 0; i < llama_model_n_cls_out(model); i++) printf("%.9g ", scores[i]);
        puts("");
        return 0;
    }
    if (what == "hidden") {
        if (llama_decode(context, batch)) return 1;
        for (int token = 0; token < int(ids.size()); token++) {
            const float * states = llama_get_embeddings_ith(context, token);
            for (int i = 0; i < llama_model_n_embd(model); i++) printf("%.9g ", states[i]);
        }
        puts("");
        return 0;
    }
    llama_token next = 0;
    for (int done = 0;; done++) {
        if (llama_decode(context, batch)) return 1;
        const float * logits = llama_get_logits_ith(context, -1);
        if (what == "logits") {
            for (int i = 0; i < vocab; i++) printf("%.9g ", logits[i]);
            break;
        }
        if (done == count) break;
        next = 0;
        for (int i = 1; i < vocab; i++) if (logits[i] > logits[next]) next = i;
        printf("%d ", next);
        batch = llama_batch_get_one(&next, 1);
    }
    puts("");
    return 0;
}
