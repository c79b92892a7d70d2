/* Built-in chat templates, for models that bring none. Written for gyre; each follows the published
 * turn format of its family. All take string contents, print the begin token if the tokenizer has
 * one, and none offers tools. */
#include <string.h>

#include "text/tmpl.h"

#define EACH            "{%- for m in messages %}"
#define END             "{%- endfor %}"
#define ASK(text)       "{%- if add_generation_prompt %}{{- " text " }}{%- endif %}"
#define BOS             "{{- bos_token if bos_token is defined }}"
#define SET_EOS(absent) "{%- set eos = eos_token if eos_token is defined else '" absent "' %}"
/* Splits a leading system message off: sets system and rest. */
#define SPLIT_SYSTEM                                                                               \
    "{%- set system = '' %}{%- set rest = messages %}"                                             \
    "{%- if messages and messages[0].role == 'system' %}"                                          \
    "{%- set system = messages[0].content %}{%- set rest = messages[1:] %}{%- endif %}"

static const char chatml[] =
    EACH "{{- '<|im_start|>' ~ m.role ~ '\\n' ~ m.content ~ '<|im_end|>\\n' }}" END ASK(
        "'<|im_start|>assistant\\n'");

static const char llama2[] = SET_EOS("</s>") SPLIT_SYSTEM
    "{%- for m in rest %}"
    "{%- if m.role == 'assistant' %}{{- ' ' ~ m.content | trim ~ ' ' ~ eos }}"
    "{%- else %}" BOS "{{- '[INST] ' }}"
    "{%- if loop.first and system %}{{- '<<SYS>>\\n' ~ system ~ '\\n<</SYS>>\\n\\n' }}{%- endif %}"
    "{{- m.content | trim ~ ' [/INST]' }}{%- endif %}" END;

static const char llama3[] =
    BOS EACH "{{- '<|start_header_id|>' ~ m.role ~ '<|end_header_id|>\\n\\n' ~ m.content | trim ~ "
             "'<|eot_id|>' }}" END ASK("'<|start_header_id|>assistant<|end_header_id|>\\n\\n'");

/* The three forms differ in the spaces around [INST] and in where the system text goes. */
#define MISTRAL(before, after_open, before_close, answer)                                          \
    SET_EOS("</s>")                                                                                \
    BOS SPLIT_SYSTEM "{%- for m in rest %}"                                                        \
                     "{%- if m.role == 'assistant' %}{{- '" answer "' ~ m.content | trim ~ eos }}" \
                     "{%- else %}{{- '" before "[INST]" after_open "' }}"                          \
                     "{%- if loop.first and system %}{{- system ~ '\\n\\n' }}{%- endif %}"         \
                     "{{- m.content ~ '" before_close "[/INST]' }}{%- endif %}" END

static const char mistral_v1[] = MISTRAL(" ", " ", " ", " ");
static const char mistral_v3[] = MISTRAL("", " ", "", " ");
static const char mistral_v7[] = SET_EOS("</s>") BOS EACH
    "{%- if m.role == 'system' %}{{- '[SYSTEM_PROMPT] ' ~ m.content ~ '[/SYSTEM_PROMPT]' }}"
    "{%- elif m.role == 'assistant' %}{{- ' ' ~ m.content ~ eos }}"
    "{%- else %}{{- '[INST] ' ~ m.content ~ '[/INST]' }}{%- endif %}" END;

static const char gemma[] = BOS SPLIT_SYSTEM
    "{%- for m in rest %}"
    "{{- '<start_of_turn>' ~ ('model' if m.role == 'assistant' else 'user') ~ '\\n' }}"
    "{%- if loop.first and system %}{{- system | trim ~ '\\n\\n' }}{%- endif %}"
    "{{- m.content | trim ~ '<end_of_turn>\\n' }}" END ASK("'<start_of_turn>model\\n'");

static const char phi3[] =
    EACH "{{- '<|' ~ m.role ~ '|>\\n' ~ m.content ~ '<|end|>\\n' }}" END ASK("'<|assistant|>\\n'");

static const char zephyr[] = SET_EOS("</s>") EACH
    "{{- '<|' ~ m.role ~ '|>\\n' ~ m.content ~ eos ~ '\\n' }}" END ASK("'<|assistant|>\\n'");

static const char vicuna[] = SET_EOS("</s>") BOS EACH
    "{%- if m.role == 'system' %}{{- m.content ~ '\\n\\n' }}"
    "{%- elif m.role == 'assistant' %}{{- 'ASSISTANT: ' ~ m.content ~ eos ~ '\\n' }}"
    "{%- else %}{{- 'USER: ' ~ m.content ~ '\\n' }}{%- endif %}" END ASK("'ASSISTANT:'");

static const char deepseek[] = SET_EOS("<\\uff5cend\\u2581of\\u2581sentence\\uff5c>") BOS EACH
    "{%- if m.role == 'system' %}{{- m.content }}"
    "{%- elif m.role == 'assistant' %}{{- '<\\uff5cAssistant\\uff5c>' ~ m.content ~ eos }}"
    "{%- else %}{{- '<\\uff5cUser\\uff5c>' ~ m.content }}{%- endif %}" END ASK(
        "'<\\uff5cAssistant\\uff5c>'");

const char *gy_chat_builtin(const char *name) {
    static const struct {
        const char *name, *source;
    } all[] = {{"chatml", chatml},         {"llama2", llama2},
               {"llama3", llama3},         {"mistral-v1", mistral_v1},
               {"mistral-v3", mistral_v3}, {"mistral-v7", mistral_v7},
               {"gemma", gemma},           {"phi3", phi3},
               {"zephyr", zephyr},         {"vicuna", vicuna},
               {"deepseek", deepseek}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (strcmp(all[i].name, name) == 0) return all[i].source;
    return NULL;
}
