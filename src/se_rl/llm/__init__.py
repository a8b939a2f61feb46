"""Language models that write modules: back-ends, prompts, generation, validation, learning."""
