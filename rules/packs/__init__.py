"""Rule packs: YAML and tables -> RuleSet."""
