"""What a broker does without being asked: delays, transactions, registration, long polls."""
